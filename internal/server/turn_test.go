package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// unreadSnapshot returns a watch whose whole snapshot lies in gRPC, none of which its
// client has taken.
func (in *instance) unreadSnapshot(ctx context.Context, t *testing.T) *rawStream {
	t.Helper()
	s := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config}, 0)
	s.attend()
	for in.server.WatchStats()[config].Live != 1 {
		if ctx.Err() != nil {
			t.Fatalf("the snapshot does not fit: %+v", in.server.WatchStats()[config])
		}
	}
	return s
}

// wantSnapshot checks that a client is shown an object and nothing else.
func (s *rawStream) wantSnapshot(ctx context.Context, t *testing.T) {
	t.Helper()
	all, err := s.await(ctx, t, "it has caught up", func(s *rawStream) bool { return synced(s.all) })
	if err != nil {
		t.Fatal(err)
	}
	if events := eventsOf(all); len(events) != 1 {
		t.Errorf("it was shown %d objects, want 1", len(events))
	}
}

// A snapshot keeps its place until it has left for the client, though gRPC took all of it
// at once; and no longer.
func TestAPlaceIsKeptUntilTheSnapshotHasLeft(t *testing.T) {
	in := start(t, settings{
		limits:  quota.Limits{Snapshots: 1},
		prepare: func(s *server.Server) { s.SetTurns(50*time.Millisecond, time.Hour) },
	})
	ctx := within(t)
	in.put(ctx, t, config, "a", strings.Repeat("x", 10<<10))
	for range 3 {
		s := in.unreadSnapshot(ctx, t)
		_, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config})
		wantRefusal(t, err, exhausted(apierr.ReasonTooManySnapshots, map[string]string{"limit": "1"}))
		if n := in.server.Usage().Snapshots; n != 1 {
			t.Errorf("%d snapshots are being sent, want 1", n)
		}
		s.grant(t, 1<<20)
		in.awaitUsage(ctx, t, "the place is free", func(u quota.Usage) bool { return u.Snapshots == 0 })
		s.wantSnapshot(ctx, t)
		end, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config})
		if err != nil {
			t.Fatal(err)
		}
		end()
		if err := s.conn.Close(); err != nil {
			t.Fatal(err)
		}
		in.wantNothingTaken(ctx, t)
	}
}

// Who does not take the snapshot that lies in gRPC keeps its place for no longer than the
// lease, and gets it all the same.
func TestAPlaceIsLostWithTheLease(t *testing.T) {
	in := start(t, settings{
		limits:  quota.Limits{Snapshots: 1},
		prepare: func(s *server.Server) { s.SetTurns(patience, 100*time.Millisecond) },
	})
	ctx := within(t)
	in.put(ctx, t, config, "a", strings.Repeat("x", 10<<10))
	s := in.unreadSnapshot(ctx, t)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	if events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); len(events) != 1 {
		t.Errorf("the other one was shown %d objects, want 1", len(events))
	}
	in.awaitUsage(ctx, t, "the places are free", func(u quota.Usage) bool { return u.Snapshots == 0 })
	s.mu.Lock()
	if s.received > 0 {
		t.Errorf("the test is too easy: %d bytes were sent to who takes none", s.received)
	}
	s.mu.Unlock()
	s.grant(t, 1<<20)
	s.wantSnapshot(ctx, t)
}
