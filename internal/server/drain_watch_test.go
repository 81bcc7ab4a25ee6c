package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
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
	drained  bool               // the last message is DRAINING
	err      error
}

// The server drains a thousand watches during writes. In each tenth of the period it ends
// a tenth of them, with a position at which the client resumes at another server without
// missing an event. Meanwhile the server refuses new watches and accepts writes.
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
	other := startOver(t, etcd, settings{readWait: patience})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	var want []event
	write := func() {
		key := fmt.Sprint(len(want))
		want = append(want, added(key, "", in.put(ctx, t, config, key, "")))
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
				d := &drainedWatch{position: here}
				for d.err == nil {
					var m *fanoutv1.WatchResponse
					if m, d.err = stream.Recv(); d.err == nil {
						d.events = append(d.events, eventsIn(m)...)
						d.position, d.drained = m.GetPosition(), m.GetKind() == fanoutv1.WatchResponse_KIND_DRAINING
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
			case <-ctx.Done():
				t.Fatalf("tenth %d: got %d ended watches, want %d", tenth, len(all), (tenth+1)*count/10)
			}
		}
		if n := in.server.Usage().Watchers; n < count-len(all) {
			t.Fatalf("tenth %d: got %d watches left, want at least %d", tenth, n, count-len(all))
		}
		_, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
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
			t.Fatalf("got stream end %v at %v, want DRAINING and UNAVAILABLE", d.err, d.position)
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
	_, err := opened(ctx, in.reads, req)
	wantRefusal(t, err, draining)
	<-drained
	in.put(ctx, t, config, "a", "1") // writes are accepted until the server stops
}
