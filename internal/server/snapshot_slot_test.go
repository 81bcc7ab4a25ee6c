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
	"github.com/fanoutd/fanoutd/test/poll"
)

// unreadSnapshot returns a watch whose snapshot the server has handed to gRPC completely,
// while the client has received none of it.
func (in *instance) unreadSnapshot(ctx context.Context, t *testing.T) *rawStream {
	t.Helper()
	s := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config}, 0)
	s.readFrames()
	for in.server.WatchStats()[config].Live != 1 {
		if ctx.Err() != nil {
			t.Fatalf("gRPC did not take the whole snapshot: %+v", in.server.WatchStats()[config])
		}
	}
	return s
}

// wantSnapshot checks that the client receives a snapshot of one object.
func (s *rawStream) wantSnapshot(ctx context.Context, t *testing.T) {
	t.Helper()
	all, err := s.await(ctx, t, "the watcher has caught up", func(s *rawStream) bool { return synced(s.all) })
	if err != nil {
		t.Fatal(err)
	}
	if events := eventsOf(all); len(events) != 1 {
		t.Errorf("got a snapshot of %d objects, want 1", len(events))
	}
}

// gRPC takes a small snapshot at once. It keeps its slot until gRPC has written it to the
// connection.
func TestASnapshotKeepsItsSlotUntilItIsWritten(t *testing.T) {
	in := start(t, settings{
		limits:  quota.Limits{Snapshots: 1},
		prepare: func(s *server.Server) { s.SetSlotTimes(50*time.Millisecond, time.Hour) },
	})
	ctx := within(t)
	in.put(ctx, t, config, "a", strings.Repeat("x", 10<<10))
	subscribed := in.subscribe(ctx, t)
	for i := range 3 {
		s := in.unreadSnapshot(ctx, t)
		_, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config})
		full := exhausted(apierr.MaxSnapshots, map[string]string{"limit": "1"})
		wantRefusal(t, err, full)
		subscribed.start(uint64(i), &fanoutv1.WatchRequest{Resource: config}).wantRefused(full)
		if n := in.server.Usage().Snapshots; n != 1 {
			t.Errorf("got %d snapshots being sent, want 1", n)
		}
		s.grant(t, 1<<20)
		in.awaitUsage(ctx, t, "the slot is free", func(u quota.Usage) bool { return u.Snapshots == 0 })
		s.wantSnapshot(ctx, t)
		end, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config})
		if err != nil {
			t.Fatal(err)
		}
		end()
		if err := s.conn.Close(); err != nil {
			t.Fatal(err)
		}
		in.wantNoUsage(ctx, t)
	}
}

// A client that does not read its snapshot loses the slot when the lease ends. It still
// receives the snapshot when it reads again.
func TestASnapshotLosesItsSlotWithTheLease(t *testing.T) {
	in := start(t, settings{
		limits:  quota.Limits{Snapshots: 1},
		prepare: func(s *server.Server) { s.SetSlotTimes(poll.Patience, 100*time.Millisecond) },
	})
	ctx := within(t)
	in.put(ctx, t, config, "a", strings.Repeat("x", 10<<10))
	s := in.unreadSnapshot(ctx, t)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	if events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); len(events) != 1 {
		t.Errorf("got a snapshot of %d objects for the second watcher, want 1", len(events))
	}
	in.awaitUsage(ctx, t, "all slots are free", func(u quota.Usage) bool { return u.Snapshots == 0 })
	s.mu.Lock()
	if s.received > 0 {
		t.Errorf("the client that does not read received %d bytes, so the test proves nothing", s.received)
	}
	s.mu.Unlock()
	s.grant(t, 1<<20)
	s.wantSnapshot(ctx, t)
}
