package server_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/poll"
)

// The watches of a stream count against the limits like others. A start that is refused leaves the
// other watches of the stream alone, and takes nothing.
func TestWatchesOfStreamsAreLimited(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{Watchers: 3, WatchersPerClient: 2, Selectors: 1, SelectorsPerClient: 1}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	one := in.subscribe(ctx, t)
	req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
	selecting := func(value string) *fanoutv1.WatchRequest {
		return &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), LabelSelector: "tier!=" + value}
	}
	kept := one.start(1, selecting("web"))
	kept.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	one.start(2, selecting("db")).wantRefused(exhausted(apierr.MaxSelectorsPerClient, map[string]string{"limit": "1", "client": host(1)}))
	one.start(2, req).next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	one.start(3, req).wantRefused(exhausted(apierr.MaxWatchersPerClient, map[string]string{"limit": "2", "client": host(1)}))

	one.stop(2)
	in.awaitUsage(ctx, t, "a watch has been stopped", func(u quota.Usage) bool { return u.Watchers == 1 && u.Selectors == 1 })
	one.start(2, req).next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	at := in.put(ctx, t, config, "a", "1")
	kept.wantEvents(added("a", "1", at))
}

// A start counts as a request.
func TestStartsCountAsRequests(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{RequestRate: 0.001, RequestBurst: 3}})
	ctx := within(t)
	s := in.subscribe(ctx, t) // the first request
	req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
	for i := range uint64(2) {
		s.start(i, req).next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	}
	_, err := s.start(9, req).stream.Recv()
	if reasonOf(err) != apierr.ReasonRateLimited {
		t.Errorf("got %v, want RATE_LIMITED", err)
	}
}

// A client that starts watches and stops them at once loses its connection, as if it had canceled
// streams.
func TestStartsThatAreStoppedAtOnceCountAsAbandoned(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{ResetRate: 5}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	s := in.subscribe(ctx, t)
	for range 20 {
		s.start(1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		s.stop(1)
	}
	s.end()
	if n := in.server.Usage().RefusedConnections[quota.MaxResetRate]; n != 1 {
		t.Errorf("got %d connections that were closed, want 1", n)
	}
}

// A stream whose client accepts no more holds less than 64 KiB and one message, however many watches it has.
// When the client accepts more, each watch gets everything.
func TestAStreamThatIsNotReadHoldsLittle(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	const watches, writes, value = 500, 60, 32 << 10
	var requests []proto.Message
	for i := range uint64(watches) {
		requests = append(requests, startRequest(i, &fanoutv1.WatchRequest{Resource: config, Scope: prefix(fmt.Sprint("p", i%writes)), Begin: fromNow()}))
	}
	s := openRawMethod(ctx, t, in.address, fanoutv1.FanoutService_Subscribe_FullMethodName, 16<<10, requests...)
	s.readFrames() // so it answers keepalive pings; its window does not grow
	poll.Until(t, "all watches have begun", func() bool { return in.server.WatchStats()[config].Live == watches })
	// No worker waits for the stream: watches of other connections, on each worker, get everything.
	var others []*watch
	for range 2 * runtime.GOMAXPROCS(0) {
		other := *in
		other.reads = fanoutv1.NewFanoutServiceClient(dial(t, in.address))
		w := other.watch(ctx, t, &fanoutv1.WatchRequest{Resource: documents, Begin: fromNow()})
		w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		others = append(others, w)
	}
	sent := func() int64 { return in.server.WatchStats()[config].Bytes }
	before := sent()
	var last int64
	for i := range writes {
		last = in.put(ctx, t, config, fmt.Sprint("p", i, "/a"), strings.Repeat("x", value))
	}
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config, Consistency: minRevision(last), PageSize: 1}, nothing)
	poll.Until(t, "the stream is blocked", func() bool { return in.server.WatchStats()[config].Blocked == watches })
	at := in.put(ctx, t, documents, "a", "{}")
	for _, w := range others {
		w.wantEvents(added("a", "{}", at))
	}
	const most = 64<<10 + 1<<20
	if n := sent() - before; n > most {
		t.Errorf("gRPC has got %d bytes, want at most %d", n, most)
	}
	s.grant(t, wideOpen-16<<10)
	// Watches that a worker has not seen before the first write do not share their events with the others, so an event
	// may cross the wire more than once.
	_, err := s.await(ctx, t, "everything has arrived", func(s *rawStream) bool {
		seen := map[int64]bool{}
		for _, e := range eventsOf(s.all) {
			seen[e.At] = true
		}
		return len(seen) == writes
	})
	if err != nil {
		t.Fatal(err)
	}
}
