package server_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"
)

// A live event of a watch waits for the part that is in flight, and for no other part of a snapshot of
// 100 MiB that another watch of the stream receives, however much of the snapshot has been sent. A
// part is a message of up to 1 MiB.
func TestALiveEventWaitsForOnePartOfASnapshot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	objects := 400
	if race.Enabled {
		objects = 64
	}
	in := start(t, settings{})
	const value, together = 256 << 10, 4
	var last int64
	text := strings.Repeat("x", value)
	for i := 0; i < objects; i += together {
		var operations []*fanoutv1.Operation
		for j := range together {
			operations = append(operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: putText(fmt.Sprint("large/", i+j), text)}})
		}
		resp, err := in.writes.Transact(within(t), &fanoutv1.TransactRequest{Resource: config, Operations: operations})
		if err != nil {
			t.Fatal(err)
		}
		last = resp.GetRevision()
	}
	ctx := within(t)
	// One watch on each worker, so the test knows when the workers have finished a round.
	var others []*watch
	for range 2 * runtime.GOMAXPROCS(0) {
		other := *in
		other.reads = fanoutv1.NewFanoutServiceClient(dial(t, in.address))
		w := other.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: exactly("round"), Begin: fromNow()})
		w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		others = append(others, w)
	}
	requests := []proto.Message{
		startRequest(1, &fanoutv1.WatchRequest{Resource: config, Scope: exactly("live"), Begin: fromNow(), Consistency: anyRevision()}),
		startRequest(2, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("large"), Consistency: minRevision(last)}),
	}
	granted := 16 << 10
	s := openRawMethod(ctx, t, in.address, fanoutv1.FanoutService_Subscribe_FullMethodName, uint32(granted), requests...)
	s.readFrames()
	await := func(what string, is func(*rawStream) bool) []*fanoutv1.WatchResponse {
		t.Helper()
		all, err := s.await(ctx, t, what, is)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}

	const events = 5
	for i := range events {
		received := len(await("the client has received what it has room for", func(s *rawStream) bool { return s.received == granted }))
		poll.Until(t, "the stream is blocked within the snapshot", func() bool { return in.server.WatchStats()[config].Blocked == len(requests) })
		at := in.put(ctx, t, config, "live", fmt.Sprint(i))
		for range 2 { // when a worker sends the second one, it has finished the round of the event
			round := in.put(ctx, t, config, "round", "1")
			for _, w := range others {
				if got := w.next(fanoutv1.WatchResponse_KIND_LIVE).GetPosition().GetRevision(); got != round {
					t.Fatalf("got revision %d, want %d", got, round)
				}
			}
		}
		more := objects * value / events
		s.grant(t, uint32(more))
		granted += more
		isEvent := func(m *fanoutv1.WatchResponse) bool {
			return m.GetKind() == fanoutv1.WatchResponse_KIND_LIVE && m.GetPosition().GetRevision() == at
		}
		all := await("the event has arrived", func(s *rawStream) bool { return slices.ContainsFunc(s.all, isEvent) })
		parts := 0
		for _, m := range all[received:slices.IndexFunc(all, isEvent)] {
			if m.GetKind() == kindPart {
				parts++
			}
		}
		t.Logf("after %d messages, the event of the other watch waited for %d parts", received, parts)
		if parts > 1 {
			t.Errorf("after %d messages, the event of the other watch waited for %d parts, want 1: that in flight", received, parts)
		}
	}
	s.grant(t, wideOpen-uint32(granted))
	all := await("the snapshot has arrived", func(s *rawStream) bool { return len(s.all) > 0 && isSynced(s.all[len(s.all)-1]) })
	if n := len(eventsOf(all)); n != objects+events {
		t.Errorf("got %d events, want %d", n, objects+events)
	}
}
