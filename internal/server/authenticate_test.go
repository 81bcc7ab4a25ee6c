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

// revocableTokens accepts every token until revoked is true.
type revocableTokens struct {
	revoked atomic.Bool
	exempt  string // a token that it always accepts; empty: none
}

func (v *revocableTokens) Verify(_ context.Context, token string) (access.Pass, error) {
	identity := access.Identity{Name: token, Method: access.JWT}
	if token == v.exempt {
		return access.Pass{Identity: identity}, nil
	}
	return access.Pass{Identity: identity, Recheck: v.check}, v.check()
}

func (v *revocableTokens) check() error {
	if v.revoked.Load() {
		return &access.RefusedError{Message: "revoked"}
	}
	return nil
}

// Credentials become invalid after a watch was authenticated and before it is registered.
// The watch must end although the server did not find it when it checked all watches.
func TestAWatchThatBeginsWhileItsCredentialsEnd(t *testing.T) {
	verifier := &revocableTokens{}
	in := start(t, settings{configure: func(cfg *server.Config) {
		cfg.Authenticator = &access.Authenticator{JWTs: verifier}
	}})
	ctx := metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer somebody")
	in.awaitLoaded(ctx, t)
	authenticated := newGate("Revision")
	in.seams[config].on(authenticated.pass)
	t.Cleanup(authenticated.open)
	ended := make(chan error, 1)
	go func() {
		stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config})
		for err == nil {
			_, err = stream.Recv()
		}
		ended <- err
	}()
	authenticated.await(ctx, t)
	verifier.revoked.Store(true)
	in.server.Reexamine()
	authenticated.open()
	wantRefusal(t, <-ended, refusal{Code: codes.Unauthenticated, Reason: apierr.ReasonUnauthenticated})
}

// Invalid credentials also end the watch of a client that does not read.
func TestInvalidCredentialsEndWatchesOfClientsThatDoNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const alice, bob = "alice", "bob"
	verifier := &revocableTokens{exempt: alice}
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
	verifier.revoked.Store(true)
	in.server.Reexamine()
	for operator.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal() != 0 {
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got stream end %v", err)
	}
}

// Unauthenticated clients may ask for the health of a resource that they name, but they
// cannot list the resources.
func TestHealthDoesNotListResourcesForUnauthenticatedClients(t *testing.T) {
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
