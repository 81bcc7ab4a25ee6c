package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

const secret = "Xyzzy-4711"

// failWrites makes writes fail with an error.
func (in *instance) failWrites(err error) {
	in.onWrites(func() error { return err })
}

// onWrites calls f before each write.
func (in *instance) onWrites(f func() error) {
	in.seams[config].on(func(_ context.Context, method string) error {
		if method == "Commit" {
			return f()
		}
		return nil
	})
}

func (in *instance) tryPut(ctx context.Context, text string) error {
	_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", text)})
	return err
}

func TestEveryRequestIsLoggedWhenItEnds(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	for _, c := range []struct {
		err   error
		code  codes.Code
		level string
	}{
		{nil, codes.OK, "DEBUG"},
		{&object.ConflictError{}, codes.FailedPrecondition, "DEBUG"},
		{object.ErrUnavailable, codes.Unavailable, "DEBUG"},
		{object.ErrNoSpace, codes.ResourceExhausted, "DEBUG"},
		{errors.New("a bug"), codes.Internal, "ERROR"},
	} {
		in.failWrites(c.err)
		if err := in.tryPut(ctx, ""); status.Code(err) != c.code {
			t.Fatalf("got %v, want %v", err, c.code)
		}
		got := in.lines.await(ctx, t, line{
			"msg": "finished call", "level": c.level, "grpc.code": c.code.String(),
			"grpc.service": "fanout.v1.StoreService", "grpc.method": "Put",
		})
		for _, name := range []string{"peer.address", "grpc.time_ms"} {
			if got[name] == nil {
				t.Errorf("got log line %v, want attribute %s", got, name)
			}
		}
	}
}

// Clients receive the meaning of an error. Its details, such as addresses, appear only in
// the log.
func TestErrorsOfTheStoreAreDetailedOnlyInTheLog(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	const inside = "dial tcp 10.1.2.3:2379: connection refused"
	for _, c := range []struct {
		name  string
		err   error
		level string
		want  refusal
	}{
		{"a bug", errors.New(inside), "ERROR", internal},
		{"no connection", fmt.Errorf("%w: %s", object.ErrUnavailable, inside), "DEBUG", storeUnavailable},
		{
			// etcd's client is a gRPC client, too. Its statuses must not reach our clients.
			"status of etcd", fmt.Errorf("commit: %w: %w", object.ErrUnavailable, status.Error(codes.Unavailable, inside)), "DEBUG", storeUnavailable,
		},
		{
			"unknown status of etcd", fmt.Errorf("commit: %w", status.Error(codes.PermissionDenied, inside)), "ERROR", internal,
		},
		{
			"end of the store's own context", fmt.Errorf("commit: %w: %w: %s", object.ErrUnavailable, context.Canceled, inside), "DEBUG", storeUnavailable,
		},
		{
			"end of an unknown context", fmt.Errorf("%s: %w", inside, context.DeadlineExceeded), "ERROR", internal,
		},
		{
			"full", fmt.Errorf("%w: %s", object.ErrNoSpace, inside), "DEBUG",
			refusal{Code: codes.ResourceExhausted, Reason: apierr.ReasonStoreFull},
		},
		{
			"too large", fmt.Errorf("%w: %s", object.ErrTooLarge, inside), "DEBUG",
			refusal{Code: codes.InvalidArgument, Reason: apierr.ReasonWriteTooLarge},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in.failWrites(c.err)
			err := in.tryPut(ctx, "")
			wantRefusal(t, err, c.want)
			if strings.Contains(err.Error(), "10.1.2.3") {
				t.Errorf("got error %q, want one without the address of etcd", err)
			}
			in.lines.await(ctx, t, line{
				"msg": "request failed", "level": c.level, "method": "/fanout.v1.StoreService/Put", "error": c.err.Error(),
			})
		})
	}
}

func TestNoValuesAreLogged(t *testing.T) {
	in := start(t, settings{})
	ctx := metadata.AppendToOutgoingContext(within(t), "authorization", secret)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	at := in.put(ctx, t, config, "a", secret)
	w.wantEvents(added("a", secret, at))
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)

	refused := []*fanoutv1.PutRequest{
		{Resource: documents, Put: putText("a", `{"password": `+secret)},
		{Resource: config, Put: putText("a", strings.Repeat(secret, maxValueBytes/len(secret)+1))},
		{Resource: config, Put: &fanoutv1.PutOperation{Key: "/", Value: &fanoutv1.PutOperation_Data{Data: []byte(secret)}}},
		{Resource: documents, Put: &fanoutv1.PutOperation{
			Key: "a", Value: &fanoutv1.PutOperation_Text{Text: `"` + secret + `"`}, Labels: map[string]string{"x": secret},
		}},
	}
	for _, req := range refused {
		if _, err := in.writes.Put(ctx, req); refusalIn(t, err).Reason != apierr.ReasonInvalidRequest {
			t.Errorf("got %v, want reason %s", err, apierr.ReasonInvalidRequest)
		}
	}
	for _, err := range []error{errors.New("a bug"), &object.ConflictError{Key: "a"}, object.ErrNoSpace} {
		in.failWrites(err)
		if err := in.tryPut(ctx, secret); err == nil {
			t.Errorf("the write succeeded, want %v", err)
		}
	}
	in.onWrites(func() error { panic("bang") })
	wantRefusal(t, in.tryPut(ctx, secret), internal)
	in.seams[config].on(nil)
	in.stop(ctx)
	if text := in.lines.text(); strings.Contains(text, secret) {
		i := strings.Index(text, secret)
		t.Errorf("got a value in the log: ...%s...", text[max(0, i-200):min(len(text), i+50)])
	}
}
