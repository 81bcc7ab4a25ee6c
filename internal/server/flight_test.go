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

// unread is a connection on which a stream that nobody reads takes 64 KiB and no more.
func unread(t *testing.T, address string) fanoutv1.FanoutServiceClient {
	t.Helper()
	return fanoutv1.NewFanoutServiceClient(dial(t, address, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(1<<20)))
}

// now returns a registered watch of what happens from now on.
func now(ctx context.Context, t *testing.T, on fanoutv1.FanoutServiceClient) *watch {
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

// Of a client that does not read a few messages are on their way, whatever happens. All
// that happens meanwhile is in the next one.
func TestLittleIsOnTheWayToWhoDoesNotRead(t *testing.T) {
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
		t.Fatal("nobody is behind")
	}
	stuck := all[i]
	if !stuck.GetBlocked() || stuck.GetBytes() > most+1<<10 || stuck.GetMessages() > writes/2 {
		t.Errorf("%d messages with %d bytes were handed over, blocked: %v", stuck.GetMessages(), stuck.GetBytes(), stuck.GetBlocked())
	}
	s.grant(t, 1<<30)
	got, err := s.await(ctx, t, "it was told everything", func(s *rawStream) bool { return reached(want[writes-1].At)(s.all) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, eventsOf(got)); diff != "" {
		t.Errorf("events, -want +got:\n%s", diff)
	}
	if n := int64(len(got)); n != stuck.GetMessages()+1 {
		t.Errorf("%d messages were on their way, and %d have come; what waited belongs in one", stuck.GetMessages(), n)
	}
	// It is told what happens again, message by message.
	for i := range 10 {
		at := in.put(ctx, t, config, "late", fmt.Sprint(i))
		more, err := s.await(ctx, t, "it was told", func(s *rawStream) bool { return reached(at)(s.all) })
		if err != nil || len(more) != len(got)+i+1 {
			t.Fatalf("%d messages have come, %v", len(more), err)
		}
	}
}

// What does not fit into a message follows in the next one at once.
func TestALargeRevisionFollowsInParts(t *testing.T) {
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
			t.Errorf("message %d is at revision %d, partial: %v", messages, at, partial)
		}
	}
	if events != keys || messages < 5 {
		t.Errorf("%d events in %d messages", events, messages)
	}
}

// A watch that nobody reads keeps no other waiting: neither those of its connection, nor
// those of other connections that its worker serves.
func TestWhoDoesNotReadKeepsNobodyWaiting(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const writes = 200
	in := start(t, settings{})
	ctx := within(t)
	// A snapshot that one who does not read can be sent to the end: that is two times
	// 64 KiB, of which the client takes the one half and gRPC the other. There is hardly
	// any room behind it.
	const shown = 60
	for i := range shown {
		in.put(ctx, t, config, fmt.Sprint("shown ", i), strings.Repeat("x", 2000))
	}
	same := unread(t, in.address)
	stuck := now(ctx, t, same)
	full := &watch{t, nil}
	var err error
	if full.stream, err = same.Watch(ctx, &fanoutv1.WatchRequest{Resource: config}); err != nil {
		t.Fatal(err)
	}
	for in.server.WatchStats()[config].Live != 2 {
		if ctx.Err() != nil {
			t.Fatal("the snapshot does not fit")
		}
	}
	readers := []*watch{now(ctx, t, same), now(ctx, t, same)}
	for range 2 * runtime.GOMAXPROCS(0) { // so some are of the same worker
		readers = append(readers, now(ctx, t, unread(t, in.address)))
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
		t.Errorf("the test is too easy: %d watches are blocked and %d behind", stats.Blocked, stats.Behind)
	}
	stuck.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	stuck.wantEvents(want...)
	if events, _ := full.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); len(events) != shown {
		t.Errorf("shown %d objects", len(events))
	}
	full.wantEvents(want...)
	at := in.put(ctx, t, config, "late", "")
	for _, w := range append(readers, stuck, full) {
		w.wantEvents(added("late", "", at))
	}
}

// However a watch ends while messages are on their way, its client is told those, and then
// where to go on: at the first event that it was not told.
func TestAWatchEndsBehindWhatIsOnItsWay(t *testing.T) {
	const writes = 20
	fick := &fickle{}
	for name, c := range map[string]struct {
		limit time.Duration
		end   func(ctx context.Context, in *instance)
		code  codes.Code
	}{
		"draining":   {0, func(ctx context.Context, in *instance) { in.server.Drain(ctx) }, codes.Unavailable},
		"time limit": {3 * time.Second, func(context.Context, *instance) {}, codes.OK},
		"credentials": {0, func(_ context.Context, in *instance) {
			fick.gone.Store(true)
			in.server.Reexamine()
		}, codes.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{configure: func(cfg *server.Config) {
				if name == "credentials" {
					cfg.Authenticator = &access.Authenticator{JWTs: fick}
				}
			}})
			ctx := metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer somebody")
			req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
			if c.limit > 0 {
				req.TimeLimit = durationpb.New(c.limit)
			}
			stream, err := unread(t, in.address).Watch(ctx, req)
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
					t.Fatal("it is not blocked")
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
						t.Errorf("it has ended with %v, want %v", err, c.code)
					}
					break
				}
				got, last = append(got, eventsIn(m)...), m
			}
			if last.GetKind() != fanoutv1.WatchResponse_KIND_DRAINING {
				t.Fatalf("the last message is %v", last.GetKind())
			}
			if len(got) == 0 || len(got) > len(want) {
				t.Fatalf("told of %d events, of %d", len(got), len(want))
			}
			if diff := cmp.Diff(want[:len(got)], got); diff != "" {
				t.Errorf("events, -want +got:\n%s", diff)
			}
			at := last.GetPosition().GetRevision()
			if at < got[len(got)-1].At || len(got) < len(want) && at >= want[len(got)].At {
				t.Errorf("it ends at revision %d, behind %v", at, got[len(got)-1].At)
			}
		})
	}
}

// explodingTrail panics when it is shown what a certain client is told.
type explodingTrail struct{ before func() }

func (*explodingTrail) Writing(context.Context) func(object.Revision) {
	return func(object.Revision) {}
}
func (*explodingTrail) Wants() bool { return true }
func (e *explodingTrail) Delivered(d backend.Delivery) {
	if sent, _ := metadata.FromIncomingContext(d.Watch); len(sent["bomb"]) > 0 {
		e.before()
		panic("bang in a worker")
	}
}

// What panics while a worker serves a watch ends that watch, and nothing else: not even
// the others of its connection. Its position may be wrong, so it is not told one, though
// the server stops at that moment.
func TestAPanicInAWorkerEndsOneWatch(t *testing.T) {
	for _, draining := range []bool{false, true} {
		t.Run(fmt.Sprintf("draining=%v", draining), func(t *testing.T) {
			trail := &explodingTrail{before: func() {}}
			in := start(t, settings{configure: func(cfg *server.Config) {
				for i := range cfg.Resources {
					cfg.Resources[i].Tracer = trail
				}
			}})
			ctx := within(t)
			if draining {
				trail.before = func() { in.server.Drain(ctx) }
			}
			bystander := now(ctx, t, in.reads)
			bystander.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
			bomb := now(metadata.AppendToOutgoingContext(ctx, "bomb", "1"), t, in.reads)
			bomb.next(fanoutv1.WatchResponse_KIND_BOOKMARK)

			at := in.put(ctx, t, config, "a", "1")
			for {
				m, err := bomb.stream.Recv()
				if err != nil {
					wantRefusal(t, err, internal)
					break
				}
				if m.GetKind() != fanoutv1.WatchResponse_KIND_LIVE {
					t.Errorf("it was told %v", m)
				}
			}
			wantPanicLine(ctx, t, in, "/fanout.v1.FanoutService/Watch", "bang in a worker", "explodingTrail")
			if draining {
				return
			}
			bystander.wantEvents(added("a", "1", at))
			at = in.put(ctx, t, config, "a", "2")
			bystander.wantEvents(modified("a", "2", at))
			if n := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal(); n != 1 {
				t.Errorf("there are %d watches, want that of the bystander", n)
			}
		})
	}
}

// Of watches whose connections end all at once, while they are told something, nothing
// is left; main_test.go looks for goroutines.
func TestNothingIsLeftOfConnectionsThatEnd(t *testing.T) {
	const connections, streams = 10, 20
	in := start(t, settings{})
	ctx := within(t)
	var conns []*grpc.ClientConn
	for range connections {
		conn := dial(t, in.address)
		conns = append(conns, conn)
		for range streams {
			now(ctx, t, fanoutv1.NewFanoutServiceClient(conn))
		}
	}
	if n := in.server.Queues(); n != connections {
		t.Errorf("there are %d lanes, want one for each connection", n)
	}
	for _, conn := range conns {
		in.put(ctx, t, config, "a", strings.Repeat("x", 1<<10))
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	in.lines.awaitAll(ctx, t, line{"msg": "finished call", "grpc.method": "Watch"}, connections*streams)
	if n := in.server.Queues(); n != 0 {
		t.Errorf("%d lanes are left", n)
	}
	if n := in.dispatchers[config].Interests(); n != 0 {
		t.Errorf("%d interests are watched", n)
	}
	stats := in.server.WatchStats()[config]
	if stats.Begun != connections*streams || stats.Live+stats.CatchingUp != 0 {
		t.Errorf("%d watches have begun, %d are there", stats.Begun, stats.Live+stats.CatchingUp)
	}
}
