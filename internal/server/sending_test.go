package server_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// dialNarrow returns a client that accepts 64 KiB of a stream that it does not read.
func dialNarrow(t *testing.T, address string) fanoutv1.FanoutServiceClient {
	t.Helper()
	return fanoutv1.NewFanoutServiceClient(dial(t, address, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(1<<20)))
}

// watchFromNow starts a from_now watch and waits until the server has registered it.
func watchFromNow(ctx context.Context, t *testing.T, on fanoutv1.FanoutServiceClient) *watch {
	t.Helper()
	stream, err := on.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	return &watch{t, stream}
}

// The server sends only a few messages to a client that does not read. All further events
// are in one message when the client reads again.
func TestFewMessagesAreInFlightToAClientThatDoesNotRead(t *testing.T) {
	const window, most, writes = 4 << 10, 16 << 10, 400
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	s := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}, window)
	s.readFrames()
	reader := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	reader.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	var want []event
	for i := range writes {
		key, text := fmt.Sprint("key ", i), strings.Repeat("x", 100)
		want = append(want, added(key, text, in.put(ctx, t, config, key, text)))
		reader.wantEvents(want[i]) // each in a message
	}
	all := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()
	i := slices.IndexFunc(all, func(w *fanoutv1.WatcherStatus) bool { return w.GetLagEvents() > 0 })
	if i < 0 {
		t.Fatal("got no watcher that lags, want one")
	}
	stuck := all[i]
	if !stuck.GetBlocked() || stuck.GetBytes() > most+1<<10 || stuck.GetMessages() > writes/2 {
		t.Errorf("got %d messages with %d bytes sent, blocked %v; want at most %d messages, %d bytes, blocked", stuck.GetMessages(), stuck.GetBytes(), stuck.GetBlocked(), writes/2, most+1<<10)
	}
	s.grant(t, 1<<30)
	got, err := s.await(ctx, t, "all events have arrived", func(s *rawStream) bool { return reached(want[writes-1].At)(s.all) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, eventsOf(got)); diff != "" {
		t.Errorf("events, -want +got:\n%s", diff)
	}
	if n := int64(len(got)); n != stuck.GetMessages()+1 {
		t.Errorf("got %d messages after %d were in flight, want one more: waiting events belong into one message", n, stuck.GetMessages())
	}
	// From now on each event is a message again.
	for i := range 10 {
		at := in.put(ctx, t, config, "late", fmt.Sprint(i))
		more, err := s.await(ctx, t, "the event has arrived", func(s *rawStream) bool { return reached(at)(s.all) })
		if err != nil || len(more) != len(got)+i+1 {
			t.Fatalf("got %d messages, %v; want %d", len(more), err, len(got)+i+1)
		}
	}
}

// A revision that does not fit into one message is sent as several partial ones.
func TestALargeRevisionIsSentInParts(t *testing.T) {
	const keys = 50
	in := start(t, settings{messageBytes: 2 << 10})
	ctx := within(t)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	req := &fanoutv1.TransactRequest{Resource: config}
	for i := range keys {
		req.Operations = append(req.Operations, putting(putText(fmt.Sprintf("key %02d", i), strings.Repeat("x", 200))))
	}
	resp, err := in.writes.Transact(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	events, messages := 0, 0
	for partial := true; partial; messages++ {
		m := w.next(fanoutv1.WatchResponse_KIND_LIVE)
		events, partial = events+len(m.GetEvents()), m.GetPartial()
		if at := m.GetPosition().GetRevision(); partial == (at == resp.GetRevision()) {
			t.Errorf("message %d: got revision %d with partial %v, want revision %d only on the last part", messages, at, partial, resp.GetRevision())
		}
	}
	if events != keys || messages < 5 {
		t.Errorf("got %d events in %d messages, want %d in at least 5", events, messages, keys)
	}
}

// A watch that its client does not read delays no other watch: neither those of the same
// connection nor those of other connections with the same worker.
func TestAnUnreadWatchDoesNotDelayOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const writes = 200
	in := start(t, settings{})
	ctx := within(t)
	// The server can send this snapshot completely although the client does not read. The
	// snapshot has nearly 128 KiB: the client buffers one half and gRPC the other. After it
	// there is hardly any space for more.
	const shown = 60
	for i := range shown {
		in.put(ctx, t, config, fmt.Sprint("shown ", i), strings.Repeat("x", 2000))
	}
	same := dialNarrow(t, in.address)
	stuck := watchFromNow(ctx, t, same)
	full := &watch{t, nil}
	var err error
	if full.stream, err = same.Watch(ctx, &fanoutv1.WatchRequest{Resource: config}); err != nil {
		t.Fatal(err)
	}
	for in.server.WatchStats()[config].Live != 2 {
		if ctx.Err() != nil {
			t.Fatal("the server could not send the whole snapshot")
		}
	}
	readers := []*watch{watchFromNow(ctx, t, same), watchFromNow(ctx, t, same)}
	for range 2 * runtime.GOMAXPROCS(0) { // so some share a worker with the unread watches
		readers = append(readers, watchFromNow(ctx, t, dialNarrow(t, in.address)))
	}
	for _, r := range readers {
		r.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	}
	var want []event
	for i := range writes {
		key, text := fmt.Sprint("key ", i), strings.Repeat("x", 2<<10)
		want = append(want, added(key, text, in.put(ctx, t, config, key, text)))
		for _, r := range readers {
			r.wantEvents(want[i])
		}
	}
	if stats := in.server.WatchStats()[config]; stats.Blocked == 0 || stats.Behind != 2 {
		t.Errorf("got %d blocked watches and %d behind, want at least 1 and exactly 2", stats.Blocked, stats.Behind)
	}
	stuck.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	stuck.wantEvents(want...)
	if events, _ := full.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); len(events) != shown {
		t.Errorf("got a snapshot of %d objects, want %d", len(events), shown)
	}
	full.wantEvents(want...)
	at := in.put(ctx, t, config, "late", "")
	for _, w := range append(readers, stuck, full) {
		w.wantEvents(added("late", "", at))
	}
}

// A watch may end while messages are in flight. The client still receives these messages,
// and then DRAINING with the position to resume at, which misses no event.
func TestAWatchEndsAfterItsMessagesInFlight(t *testing.T) {
	const writes = 20
	verifier := &revocableTokens{}
	for name, c := range map[string]struct {
		limit time.Duration
		end   func(ctx context.Context, in *instance)
		code  codes.Code
	}{
		"draining":   {0, func(ctx context.Context, in *instance) { in.server.Drain(ctx) }, codes.Unavailable},
		"time limit": {3 * time.Second, func(context.Context, *instance) {}, codes.OK},
		"credentials": {0, func(_ context.Context, in *instance) {
			verifier.revoked.Store(true)
			in.server.Reexamine()
		}, codes.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{configure: func(cfg *server.Config) {
				if name == "credentials" {
					cfg.Authenticator = &access.Authenticator{JWTs: verifier}
				}
			}})
			ctx := metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer somebody")
			req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
			if c.limit > 0 {
				req.TimeLimit = durationpb.New(c.limit)
			}
			stream, err := dialNarrow(t, in.address).Watch(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Header(); err != nil {
				t.Fatal(err)
			}
			var want []event
			for i := range writes {
				key, text := fmt.Sprint("key ", i), strings.Repeat("x", 20<<10)
				want = append(want, added(key, text, in.put(ctx, t, config, key, text)))
			}
			for stats := in.server.WatchStats()[config]; stats.Blocked == 0 || stats.Behind == 0; stats = in.server.WatchStats()[config] {
				if ctx.Err() != nil {
					t.Fatal("the watch is not blocked, want it blocked and behind")
				}
			}
			c.end(ctx, in)
			w := &watch{t, stream}
			w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
			var got []event
			var last *fanoutv1.WatchResponse
			for {
				m, err := stream.Recv()
				if err != nil {
					if code := status.Code(err); err != io.EOF && code != c.code || err == io.EOF && c.code != codes.OK {
						t.Errorf("got stream end %v, want %v", err, c.code)
					}
					break
				}
				got, last = append(got, eventsIn(m)...), m
			}
			if last.GetKind() != fanoutv1.WatchResponse_KIND_DRAINING {
				t.Fatalf("got last message %v, want DRAINING", last.GetKind())
			}
			if len(got) == 0 || len(got) > len(want) {
				t.Fatalf("got %d events, want between 1 and %d", len(got), len(want))
			}
			if diff := cmp.Diff(want[:len(got)], got); diff != "" {
				t.Errorf("events, -want +got:\n%s", diff)
			}
			at := last.GetPosition().GetRevision()
			if at < got[len(got)-1].At || len(got) < len(want) && at >= want[len(got)].At {
				t.Errorf("got final position %d after an event of revision %d, want the position before the next event", at, got[len(got)-1].At)
			}
		})
	}
}

// panickingTracer panics after a delivery to a client that sends the metadata "panic".
type panickingTracer struct{ before func() }

func (*panickingTracer) Writing(context.Context) func(object.Revision) {
	return func(object.Revision) {}
}
func (*panickingTracer) Wants() bool { return true }
func (e *panickingTracer) Delivered(d backend.Delivery) {
	if sent, _ := metadata.FromIncomingContext(d.Watch); len(sent["panic"]) > 0 {
		e.before()
		panic("panic in a worker")
	}
}

// A panic in a worker ends the watch that it serves and nothing else, not even other
// watches of the same connection. The position of the watch may be wrong, so it ends
// without one, even if the server drains at the same moment.
func TestAPanicInAWorkerEndsOneWatch(t *testing.T) {
	for _, draining := range []bool{false, true} {
		t.Run(fmt.Sprintf("draining=%v", draining), func(t *testing.T) {
			tracer := &panickingTracer{before: func() {}}
			in := start(t, settings{configure: func(cfg *server.Config) {
				for i := range cfg.Resources {
					cfg.Resources[i].Tracer = tracer
				}
			}})
			ctx := within(t)
			if draining {
				tracer.before = func() { in.server.Drain(ctx) }
			}
			bystander := watchFromNow(ctx, t, in.reads)
			bystander.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
			failing := watchFromNow(metadata.AppendToOutgoingContext(ctx, "panic", "1"), t, in.reads)
			failing.next(fanoutv1.WatchResponse_KIND_BOOKMARK)

			at := in.put(ctx, t, config, "a", "1")
			for {
				m, err := failing.stream.Recv()
				if err != nil {
					wantRefusal(t, err, internal)
					break
				}
				if m.GetKind() != fanoutv1.WatchResponse_KIND_LIVE {
					t.Errorf("got message %v, want only live ones before the error", m)
				}
			}
			wantPanicLine(ctx, t, in, "/fanout.v1.FanoutService/Watch", "panic in a worker", "panickingTracer")
			if draining {
				return
			}
			bystander.wantEvents(added("a", "1", at))
			at = in.put(ctx, t, config, "a", "2")
			bystander.wantEvents(modified("a", "2", at))
			if n := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal(); n != 1 {
				t.Errorf("got %d watches, want only that of the bystander", n)
			}
		})
	}
}

// Many connections end while events are sent to their watches. The server frees everything
// that they held; main_test.go checks the goroutines.
func TestConnectionsThatEndLeaveNothing(t *testing.T) {
	const connections, streams = 10, 20
	in := start(t, settings{})
	ctx := within(t)
	var conns []*grpc.ClientConn
	for range connections {
		conn := dial(t, in.address)
		conns = append(conns, conn)
		for range streams {
			watchFromNow(ctx, t, fanoutv1.NewFanoutServiceClient(conn))
		}
	}
	for _, conn := range conns {
		in.put(ctx, t, config, "a", strings.Repeat("x", 1<<10))
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	in.lines.awaitAll(ctx, t, line{"msg": "finished call", "grpc.method": "Watch"}, connections*streams)
	if n := in.dispatchers[config].Interests(); n != 0 {
		t.Errorf("got %d interests at the end, want 0", n)
	}
	stats := in.server.WatchStats()[config]
	if stats.Begun != connections*streams || stats.Live+stats.CatchingUp != 0 {
		t.Errorf("got %d watches begun and %d left, want %d and 0", stats.Begun, stats.Live+stats.CatchingUp, connections*streams)
	}
}
