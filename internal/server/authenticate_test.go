package server_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server"
)

// fickle takes every token for good, until it does not.
type fickle struct{ gone atomic.Bool }

func (f *fickle) Verify(_ context.Context, token string) (access.Pass, error) {
	identity := access.Identity{Name: token, Method: access.JWT}
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
	wantRefusal(t, <-ended, refusal{Code: codes.Unauthenticated, Reason: server.ReasonUnauthenticated})
}

// Whoever tries one token after the other is not listened to for long; from another
// host, and with good ones, it goes on.
func TestTheRateOfBadCredentialsIsLimitedForEachHost(t *testing.T) {
	const burst = 3
	verifier := &fickle{}
	in := start(t, settings{
		limits:    server.Limits{RequestRate: 0.001, RequestBurst: burst},
		configure: func(cfg *server.Config) { cfg.Authenticator = &access.Authenticator{JWTs: verifier} },
	})
	ctx := within(t)
	get := func(conn *grpc.ClientConn, who string) error {
		_, err := fanoutv1.NewFanoutServiceClient(conn).Get(
			metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+who), &fanoutv1.GetRequest{Resource: config, Key: "k"})
		return err
	}
	one, other := in.dialFrom(t, host(2)), in.dialFrom(t, host(3))
	for i := range burst + 2 { // good ones take nothing of it
		if err := get(one, strconv.Itoa(i)); refusalIn(t, err).Reason == server.ReasonRateLimited {
			t.Fatal(err)
		}
	}
	verifier.gone.Store(true)
	for i := range burst {
		wantRefusal(t, get(one, strconv.Itoa(i)), refusal{Code: codes.Unauthenticated, Reason: server.ReasonUnauthenticated})
	}
	limited := exhausted(server.ReasonRateLimited, map[string]string{"limit": "0.001", "client": host(2)})
	wantRefusal(t, get(one, "a"), limited)
	verifier.gone.Store(false)
	wantRefusal(t, get(one, "b"), limited) // nobody has looked
	if err := get(other, "c"); refusalIn(t, err).Reason == server.ReasonRateLimited {
		t.Errorf("another host: %v", err)
	}
}
