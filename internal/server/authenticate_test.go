package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// fickle takes every token for good, until it does not.
type fickle struct {
	gone   atomic.Bool
	spared string // the token that it always takes for good; empty: none
}

func (f *fickle) Verify(_ context.Context, token string) (access.Pass, error) {
	identity := access.Identity{Name: token, Method: access.JWT}
	if token == f.spared {
		return access.NewPass(identity, time.Time{}, nil), nil
	}
	return access.NewPass(identity, time.Time{}, f.check), f.check()
}

func (f *fickle) check() error {
	if f.gone.Load() {
		return &access.RefusedError{Message: "not any more"}
	}
	return nil
}

// A watch that begins while its credentials end does not slip through: they were good
// when it was let in, and it was not there when all watches were looked at.
func TestAWatchThatBeginsWhileItsCredentialsEnd(t *testing.T) {
	verifier := &fickle{}
	in := start(t, settings{configure: func(cfg *server.Config) {
		cfg.Authenticator = &access.Authenticator{JWTs: verifier}
	}})
	ctx := metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer somebody")
	in.awaitLoaded(ctx, t)
	letIn := newGate("Revision")
	in.seams[config].on(letIn.pass)
	t.Cleanup(letIn.open)
	ended := make(chan error, 1)
	go func() {
		stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config})
		for err == nil {
			_, err = stream.Recv()
		}
		ended <- err
	}()
	letIn.await(ctx, t)
	verifier.gone.Store(true)
	in.server.Reexamine()
	letIn.open()
	wantRefusal(t, <-ended, refusal{Code: codes.Unauthenticated, Reason: apierr.ReasonUnauthenticated})
}

// Credentials that are gone do not last longer because the client does not read.
func TestTheCredentialsOfAWatchThatDoesNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const alice, bob = "alice", "bob"
	verifier := &fickle{spared: alice}
	in := start(t, settings{grace: time.Hour, configure: func(cfg *server.Config) {
		cfg.Authenticator = &access.Authenticator{JWTs: verifier}
	}})
	ctx := within(t)
	operator := in.as(t, alice)
	operator.awaitLoaded(ctx, t)
	stream, err := in.as(t, bob).reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 512<<10)
	for range 3 {
		operator.put(ctx, t, config, "a", large)
	}
	operator.awaitWatcher(ctx, t, (*fanoutv1.WatcherStatus).GetBlocked)
	verifier.gone.Store(true)
	in.server.Reexamine()
	for operator.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal() != 0 {
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("it has ended with %v", err)
	}
}

// Who has not shown who it is may ask how a resource does, but not which there are.
func TestHealthNamesNothingToStrangers(t *testing.T) {
	in := start(t, settings{policy: "rules: []"})
	ctx := within(t)
	health := healthpb.NewHealthClient(in.conn)
	if _, err := health.Check(ctx, &healthpb.HealthCheckRequest{Service: "resource/" + config}); err != nil {
		t.Error(err)
	}
	_, err := health.List(ctx, &healthpb.HealthListRequest{})
	wantRefusal(t, err, refusal{Code: codes.Unauthenticated, Reason: apierr.ReasonUnauthenticated})
	if _, err := healthpb.NewHealthClient(in.as(t, "ann").conn).List(ctx, &healthpb.HealthListRequest{}); err != nil {
		t.Error(err)
	}
}
