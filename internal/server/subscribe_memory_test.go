package server_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/poll"
)

// An idle watch of a stream with a thousand takes little memory, its entry in the registry included.
// Only the live heap is counted: the collector lets the process grow to about one and a half times as
// much.
func TestIdleWatchesOfStreamsTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const streams, perStream = 3, 1000
	for name, c := range map[string]struct {
		key   func(stream, id int) string
		limit int64 // for each watch
	}{
		"one interest":   {func(int, int) string { return "key" }, 350},
		"a key for each": {func(stream, id int) string { return fmt.Sprintf("key %d/%d", stream, id) }, 1300},
	} {
		t.Run(name, func(t *testing.T) {
			in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{})
			ctx := t.Context() // the machine may be busy for long
			open := func(stream, watches int) {
				s, err := in.reads.Subscribe(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for id := range watches {
					if err := s.Send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{Start: &fanoutv1.SubscribeRequest_Start{
						WatchId: uint64(id),
						Request: &fanoutv1.WatchRequest{Resource: config, Scope: exactly(c.key(stream, id)), Begin: fromNow()},
					}}}); err != nil {
						t.Fatal(err)
					}
				}
				for begun := 0; begun < watches; {
					resp, err := s.Recv()
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range resp.GetEntries() {
						if e.GetResponse() == nil {
							t.Fatalf("got %v, want a message", e)
						}
						begun += len(e.GetWatchIds())
					}
				}
			}
			for i := range 2 { // whatever the first streams need
				open(-1-i, 10)
			}
			before := heap()
			for i := range streams {
				open(i, perStream)
			}
			each := (heap() - before) / (streams * perStream)
			t.Logf("%d bytes for each watch", each)
			if each > c.limit {
				t.Errorf("a watch takes %d bytes, want at most %d", each, c.limit)
			}
			if n := in.server.WatchStats()[config].Live; n != streams*perStream+20 {
				t.Errorf("%d watches are live, want %d", n, streams*perStream+20)
			}
		})
	}
}

// After watches with every option were started, refused and stopped, or have failed, their stream
// keeps no memory for them.
func TestStreamsKeepNoMemoryOfWatchesThatHaveEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		const rounds, perRound, limit = 60, 100, 150 // bytes for each watch
		with.window = cacher.WindowLimits{MaxChanges: 5}
		in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), with)
		ctx := t.Context() // the machine may be busy for long
		var at int64
		for i := range 10 {
			at = in.put(ctx, t, config, fmt.Sprintf("k/%d", i), "1")
		}
		epoch := in.epoch(ctx, t)
		position := func(epoch string, revision int64) *fanoutv1.WatchRequest_After {
			return after(&fanoutv1.Position{Epoch: epoch, Revision: revision})
		}
		request := func(i int) *fanoutv1.WatchRequest {
			req := &fanoutv1.WatchRequest{
				Resource: config, EveryEvent: i%2 > 0, OmitValues: i%3 > 0, PreviousObject: i%5 > 0, JsonValues: i%7 > 0,
			}
			switch i % 6 {
			case 1:
				req.Begin = fromNow()
			case 2:
				req.Begin = position(epoch, at)
			case 3:
				req.Begin = position(epoch, 1) // with every_event: lost
			case 4:
				req.Begin = position("old", 1) // with every_event: lost
			case 5:
				req.Consistency = &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
			}
			switch i % 5 {
			case 1:
				req.Scope = exactly(fmt.Sprintf("k/%d", i%10))
			case 2:
				req.Scope = prefix("k")
			case 3:
				req.LabelSelector = fmt.Sprintf("n!=%d", i%10)
			}
			if i%4 > 1 {
				req.TimeLimit = durationpb.New(time.Hour)
			}
			if i%8 > 3 {
				req.MaxBatchDelay = durationpb.New(time.Minute)
			}
			if i%16 > 7 {
				req.BookmarkInterval = durationpb.New(time.Duration(1+i%60) * time.Minute)
			}
			if i%32 > 15 {
				req.EveryEvent, req.Delivery = false, fanoutv1.Delivery_DELIVERY_LATEST
			}
			if i%50 == 0 {
				req.Resource = "nothing"
			}
			return req
		}
		s, err := in.reads.Subscribe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		send := func(req *fanoutv1.SubscribeRequest) {
			if err := s.Send(req); err != nil {
				t.Error(err)
			}
		}
		// receive reads until every watch has begun or is over, or until every watch is over.
		refused := 0
		receive := func(state map[uint64]bool, isOver bool) {
			for len(state) < perRound || isOver && slices.Contains(slices.Collect(maps.Values(state)), false) {
				resp, err := s.Recv()
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range resp.GetEntries() {
					for _, id := range e.GetWatchIds() {
						state[id] = state[id] || e.GetResponse() == nil
					}
					if e.GetRefused() != nil {
						refused++
					}
				}
			}
		}
		var before int64
		for round := range rounds + 2 {
			if round == 2 { // after whatever the first watches need
				before = heap()
			}
			state := map[uint64]bool{}
			for id := range uint64(perRound) {
				send(startRequest(id, request(int(id))))
			}
			receive(state, false)
			in.put(ctx, t, config, fmt.Sprintf("k/%d", round%10), "2")
			for id := range uint64(perRound) {
				send(stopRequest(id))
			}
			receive(state, true)
		}
		t.Logf("%d starts were refused", refused)
		// The server frees what an uncached watch has read soon after its end, but not the goroutines of a
		// round: the runtime keeps their memory for others.
		poll.Until(t, fmt.Sprintf("the stream keeps less than %d bytes of each watch that has ended", limit), func() bool {
			return heap()-before < limit*rounds*perRound
		})
		if refused == 0 {
			t.Error("no start was refused")
		}
	})
}
