package server_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// A live event of a watch waits for the part that is in flight and for one more part of the snapshot
// of another watch of the stream, however large the snapshot is.
func TestALiveEventWaitsForOnePartOfASnapshot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	const objects, value = 400, 32 << 10
	var last int64
	for i := range objects {
		last = in.put(ctx, t, config, fmt.Sprint("large/", i), strings.Repeat("x", value))
	}
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
	const window = 16 << 10
	s := openRawMethod(ctx, t, in.address, fanoutv1.FanoutService_Subscribe_FullMethodName, window, requests...)
	poll.Until(t, "the stream is blocked within the snapshot", func() bool { return in.server.WatchStats()[config].Blocked == len(requests) })
	at := in.put(ctx, t, config, "live", "1")
	for range 2 { // when a worker sends the second one, it has finished the round of the event
		round := in.put(ctx, t, config, "round", "1")
		for _, w := range others {
			if got := w.next(fanoutv1.WatchResponse_KIND_LIVE).GetPosition().GetRevision(); got != round {
				t.Fatalf("got revision %d, want %d", got, round)
			}
		}
	}
	s.readFrames()
	s.grant(t, wideOpen-window)
	isLive := func(m *fanoutv1.WatchResponse) bool {
		return m.GetKind() == fanoutv1.WatchResponse_KIND_LIVE && m.GetPosition().GetRevision() == at
	}
	all, err := s.await(ctx, t, "everything has arrived", func(s *rawStream) bool { return len(eventsOf(s.all)) == objects+1 })
	if err != nil {
		t.Fatal(err)
	}
	before, parts := 0, 0
	for _, m := range all {
		if m.GetKind() == fanoutv1.WatchResponse_KIND_CATCH_UP_PART {
			parts++
		}
		if isLive(m) {
			before = parts
		}
	}
	const most = 2 // one is in flight
	t.Logf("%d of %d parts arrived before the event", before, parts)
	if before > most || parts < 5*most {
		t.Errorf("got %d of %d parts of the snapshot before the event of the other watch, want at most %d of many", before, parts, most)
	}
}
