package server_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"
)

// manualClock is a clock that the test advances.
type manualClock struct {
	once sync.Once
	used chan struct{} // closed at the first call of Now

	mu      sync.Mutex
	now     time.Time     // guarded by mu
	changed chan struct{} // guarded by mu; closed and replaced for every step
}

func newManualClock() *manualClock {
	return &manualClock{used: make(chan struct{}), changed: make(chan struct{})}
}

func (s *manualClock) step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Now implements server.DrainClock.
func (s *manualClock) Now() time.Time {
	defer s.once.Do(func() { close(s.used) })
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Wait implements server.DrainClock.
func (s *manualClock) Wait(ctx context.Context, until time.Time, done <-chan struct{}) bool {
	for {
		s.mu.Lock()
		now, changed := s.now, s.changed
		s.mu.Unlock()
		if now.After(until) {
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// drainedWatch is the result of a watch that was read until it ended.
type drainedWatch struct {
	events   []event
	position *fanoutv1.Position // of the last message
	conn     int                // index of the connection
	drained  bool               // the last message is DRAINING, and says to resume at once
	err      error
}

// The server drains a thousand watches during writes. In each tenth of the period it ends
// a tenth of them, connection by connection, with a position at which the client resumes at
// another server without missing an event. Meanwhile the server refuses new watches, and
// accepts writes on the connections that it has not ended.
func TestDrainingEndsWatchesEvenlyAndLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	count, connections := 1000, 20
	if race.Enabled {
		count = 200
	}
	clock := newManualClock()
	etcd := openEtcd(t, 0)
	period := time.Duration(count) * 10 * time.Millisecond // 10 ms per watch is enough
	in := startOver(t, etcd, settings{drainPeriod: 2 * period, prepare: func(s *server.Server) { s.SetDrainClock(clock) }})
	other := startOver(t, etcd, settings{readWait: poll.Patience})
	ctx := within(t)
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	var want []event
	write := func() {
		key := fmt.Sprint(len(want))
		want = append(want, added(key, "", in.put(ctx, t, config, key, "")))
	}

	var refused []fanoutv1.FanoutServiceClient // each on a connection that is already open
	for range 10 {
		reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address))
		if _, err := reads.List(ctx, &fanoutv1.ListRequest{Resource: config}); err != nil {
			t.Fatal(err)
		}
		refused = append(refused, reads)
	}
	ended := make(chan *drainedWatch, count)
	for c := range connections {
		reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address))
		for range count / connections {
			stream, err := reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: after(here)})
			if err != nil {
				t.Fatal(c, err)
			}
			if _, err := stream.Header(); err != nil {
				t.Fatal(err)
			}
			go func() {
				d := &drainedWatch{position: here, conn: c}
				for d.err == nil {
					var m *fanoutv1.WatchResponse
					if m, d.err = stream.Recv(); d.err == nil {
						d.events = append(d.events, eventsIn(m)...)
						d.position = m.GetPosition()
						d.drained = m.GetKind() == fanoutv1.WatchResponse_KIND_DRAINING && m.GetResumeAtOnce()
					}
				}
				ended <- d
			}()
		}
	}
	write()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		in.server.Drain(ctx)
	}()
	health := in.watchHealth(ctx, t, "")
	awaitHealth(t, health, notServing)
	<-clock.used // the period has begun
	var all []*drainedWatch
	for tenth := range 10 {
		// The server waits until the clock has passed this tenth of the period.
		clock.step(period / 10)
		for range count / 10 {
			select {
			case d := <-ended:
				all = append(all, d)
				if d.conn/(connections/10) != tenth {
					t.Errorf("tenth %d: got the end of a watch of connection %d", tenth, d.conn)
				}
			case <-ctx.Done():
				t.Fatalf("tenth %d: got %d ended watches, want %d", tenth, len(all), (tenth+1)*count/10)
			}
		}
		if n := in.server.Usage().Watchers; n < count-len(all) {
			t.Fatalf("tenth %d: got %d watches left, want at least %d", tenth, n, count-len(all))
		}
		_, err := opened(ctx, refused[tenth], &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		wantRefusal(t, err, draining)
		write()
		select {
		case d := <-ended:
			t.Fatalf("tenth %d: more than a tenth of the watches ended, the last one with %v", tenth, d.err)
		default:
		}
	}
	<-drained
	in.stop(ctx)

	// Each watch receives every event once from both servers together.
	var group sync.WaitGroup
	reads := fanoutv1.NewFanoutServiceClient(dial(t, other.address))
	for _, d := range all {
		if !d.drained || status.Code(d.err) != codes.Unavailable {
			t.Fatalf("got stream end %v at %v, want DRAINING to resume at once, and UNAVAILABLE", d.err, d.position)
		}
		group.Go(func() {
			resumed, leave := context.WithCancel(ctx)
			defer leave()
			stream, err := reads.Watch(resumed, &fanoutv1.WatchRequest{Resource: config, Begin: after(d.position), EveryEvent: true})
			for err == nil && len(d.events) < len(want) {
				var m *fanoutv1.WatchResponse
				if m, err = stream.Recv(); err == nil {
					d.events = append(d.events, eventsIn(m)...)
				}
			}
			if err != nil {
				t.Errorf("resumed at %v: %v", d.position, err)
			}
		})
	}
	group.Wait()
	for i, d := range all {
		for j := range want {
			if j >= len(d.events) || d.events[j] != want[j] {
				t.Fatalf("watch %d: got events %v, want %v", i, d.events, want)
			}
		}
	}
}

// During the drain delay the server is NOT_SERVING, so load balancers move on, but it still
// accepts watches.
func TestWatchesBeginDuringTheDrainDelay(t *testing.T) {
	clock := newManualClock()
	in := start(t, settings{drainDelay: time.Minute, prepare: func(s *server.Server) { s.SetDrainClock(clock) }})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	health := in.watchHealth(ctx, t, "")
	awaitHealth(t, health, serving)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		in.server.Drain(ctx)
	}()
	awaitHealth(t, health, notServing)
	req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
	w := in.watch(ctx, t, req)
	now := w.next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition()
	// The clock must move after the server has begun to wait for it, so advance it until the
	// drain has ended.
	go func() {
		for ctx.Err() == nil {
			select {
			case <-drained:
				return
			default:
				clock.step(time.Second)
			}
		}
	}()
	w.wantDrained(now)
	<-drained
	if _, err := opened(ctx, in.reads, req); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v for a watch after the drain, want UNAVAILABLE", err)
	}
}

// A client behind a load balancer that does not know that a server drains reaches another
// server with its next request: its connection ends with its watches, and the server accepts no
// new ones. Connections without watches stay until they are refused one.
func TestDrainedClientReachesAnotherServer(t *testing.T) {
	etcd := openEtcd(t, 0)
	in := startOver(t, etcd, settings{drainPeriod: time.Minute})
	other := startOver(t, etcd, settings{readWait: poll.Patience})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	other.awaitLoaded(ctx, t)
	balanced := func() *grpc.ClientConn {
		return dial(t, "passthrough:///balanced", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", in.address)
			if err != nil {
				return new(net.Dialer).DialContext(ctx, "tcp", other.address)
			}
			return conn, nil
		}))
	}
	watching, idle := fanoutv1.NewFanoutServiceClient(balanced()), fanoutv1.NewFanoutServiceClient(balanced())
	if _, err := idle.List(ctx, &fanoutv1.ListRequest{Resource: config}); err != nil {
		t.Fatal(err)
	}
	stream, err := watching.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []fanoutv1.WatchResponse_Kind{fanoutv1.WatchResponse_KIND_BOOKMARK, fanoutv1.WatchResponse_KIND_DRAINING} {
		m, err := stream.Recv()
		if err != nil || m.GetKind() != want {
			t.Fatalf("got %v, %v, want %v", m, err, want)
		}
		if want == fanoutv1.WatchResponse_KIND_BOOKMARK {
			in.server.Drain(ctx)
		}
	}
	req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
	leave, err := opened(ctx, watching, req)
	if err != nil {
		t.Errorf("got %v for the next watch of a drained client", err)
	}
	defer leave()
	in.put(ctx, t, config, "a", "1") // on a connection that has no watch
	_, err = opened(ctx, idle, req)
	wantRefusal(t, err, draining)
	leave, err = opened(ctx, idle, req)
	if err != nil {
		t.Errorf("got %v for the second watch of a client that was refused one", err)
	}
	defer leave()
	if n := other.server.Usage().Watchers; n != 2 {
		t.Errorf("got %d watches at the other server, want 2", n)
	}
}
