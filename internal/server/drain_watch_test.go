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

// steps is a clock that a test moves.
type steps struct {
	once  sync.Once
	asked chan struct{} // closed when somebody has asked for the time

	mu      sync.Mutex
	now     time.Time     // guarded by mu
	changed chan struct{} // guarded by mu; closed and replaced with every step
}

func newSteps() *steps { return &steps{asked: make(chan struct{}), changed: make(chan struct{})} }

func (s *steps) step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Now implements server.DrainClock.
func (s *steps) Now() time.Time {
	defer s.once.Do(func() { close(s.asked) })
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Wait implements server.DrainClock.
func (s *steps) Wait(ctx context.Context, until time.Time, done <-chan struct{}) bool {
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

// drainee is a watch that is read until it ends.
type drainee struct {
	events   []event
	position *fanoutv1.Position // the last one
	drained  bool               // the last message says so
	err      error
}

// A thousand watches are drained while somebody writes. In each tenth of the period a
// tenth of them ends, with a last position, at which another server goes on: nobody
// misses an event. Meanwhile new watches are refused and writes are not.
func TestDraining(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	count, connections := 1000, 20
	if race.Enabled {
		count = 200
	}
	clock := newSteps()
	etcd := openEtcd(t, 0)
	period := time.Duration(count) * 10 * time.Millisecond // no watch needs more
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

	ended := make(chan *drainee, count)
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
				d := &drainee{position: here}
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
	<-clock.asked // the period has begun
	var all []*drainee
	for tenth := range 10 {
		// The server waits for the clock, whose hand is at the edge of a tenth.
		clock.step(period / 10)
		for range count / 10 {
			select {
			case d := <-ended:
				all = append(all, d)
			case <-ctx.Done():
				t.Fatalf("in tenth %d, %d have ended", tenth, len(all))
			}
		}
		if n := in.server.Usage().Watchers; n < count-len(all) {
			t.Fatalf("in tenth %d only %d watches are left", tenth, n)
		}
		_, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		wantRefusal(t, err, draining)
		write()
		select {
		case d := <-ended:
			t.Fatalf("after tenth %d more than a tenth of the watches has ended: %v", tenth, d.err)
		default:
		}
	}
	<-drained
	in.stop(ctx)

	// All of them together are told everything once, there and here.
	var group sync.WaitGroup
	reads := fanoutv1.NewFanoutServiceClient(dial(t, other.address))
	for _, d := range all {
		if !d.drained || status.Code(d.err) != codes.Unavailable {
			t.Fatalf("a watch ends at %v with %v", d.position, d.err)
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
				t.Fatalf("watch %d was told %v, want %v", i, d.events, want)
			}
		}
	}
}

// The delay is for those who ask for the health. Until it is over, watches begin.
func TestBeforeDrainingEverybodyIsServed(t *testing.T) {
	clock := newSteps()
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
	// The time has to come after the server has begun to wait for it, or it never does.
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
	in.put(ctx, t, config, "a", "1") // a write is served until the end
}
