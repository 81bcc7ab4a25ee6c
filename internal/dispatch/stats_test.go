package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
)

// startDispatching returns a fixture whose dispatcher has seen the first state. Later changes
// are in the logs.
func startDispatching(t testing.TB, l limits) *fixture {
	t.Helper()
	f := start(t, l)
	poll.Until(t, "the dispatcher has seen the first state", func() bool { return f.dispatcher.Stats().DispatchedUpTo.Revision > 0 })
	return f
}

// Events are counted once for each interest. Messages have the number of their events and
// the arrival of the first change.
func TestEventsAreCounted(t *testing.T) {
	f := startDispatching(t, limits{})
	begin := catchup.FromNow(f.cacher.State().Position())
	var watchers []*dispatch.Pulled
	for _, i := range []feed.Interest{{}, {}, {Scope: object.ExactKey("k")}, {Scope: object.ExactKey("other")}} {
		w := f.dispatcher.Pull(f.workers.NewQueue(), i, begin, dispatch.Options{})
		defer w.Close()
		if _, err := w.Next(t.Context()); err != nil { // the bookmark
			t.Fatal(err)
		}
		watchers = append(watchers, w)
	}
	if n := f.dispatcher.Stats().Interests; n != 3 {
		t.Errorf("got %d interests, want 3", n)
	}
	before := time.Now()
	at := f.store.Put("k", "v")
	for n, w := range watchers[:3] {
		m, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m.Count != 1 || m.Header.Kind != object.Live {
			t.Errorf("watcher %d: got %d events in a message of kind %v, want one live event", n, m.Count, m.Header.Kind)
		}
		if m.Arrived.Before(before) || m.Arrived.After(time.Now()) {
			t.Errorf("watcher %d: got arrival %v for a change made after %v", n, m.Arrived, before)
		}
		if !w.Shows(at) || w.Shows(at-1) || w.Shows(at+1) {
			t.Errorf("watcher %d: Shows is not true for exactly the revision of the change", n)
		}
	}
	if watchers[3].Shows(at) {
		t.Error("Shows is true for a watcher of another key")
	}
	s := f.dispatcher.Stats()
	if s.Events != 2 || s.EventBytes == 0 || s.LogBytes == 0 || s.DispatchedUpTo.Revision != at {
		t.Errorf("got %+v, want 2 events through revision %d", s, at)
	}
}

// A message that is read from the window has an arrival time, too.
func TestArrivalsAreKnownWithoutTheLog(t *testing.T) {
	for name, latest := range map[string]bool{"every": false, "latest": true} {
		t.Run(name, func(t *testing.T) {
			f := startDispatching(t, limits{logBytes: 1})
			w := f.dispatcher.Pull(f.workers.NewQueue(), feed.Interest{}, catchup.FromNow(f.cacher.State().Position()), dispatch.Options{Latest: latest})
			defer w.Close()
			if _, err := w.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := time.Now()
			var last object.Revision
			for i := range 1000 {
				last = f.store.Put(object.Key(fmt.Sprint("k", i%7)), "v")
			}
			for at := object.Revision(0); at < last; {
				m, err := w.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if m.Arrived.Before(before) || m.Arrived.After(time.Now()) {
					t.Fatalf("got arrival %[2]v for the first of %[1]d changes", m.Count, m.Arrived)
				}
				if n := len(decode(t, m).Events); n != m.Count {
					t.Fatalf("got %d events in a message with count %d", n, m.Count)
				}
				at = m.Header.Position.Revision
			}
			if f.dispatcher.Stats().Evictions == 0 {
				t.Error("the test is too easy: no segment was evicted")
			}
		})
	}
}

// The events of a catch-up waited for the client, not for the server. They have no arrival time.
func TestCatchUpsHaveNoArrival(t *testing.T) {
	f := startDispatching(t, limits{})
	from := f.cacher.State().Position()
	at := f.store.Put("k", "v")
	poll.Until(t, "the dispatcher has seen the change", func() bool { return f.dispatcher.Stats().DispatchedUpTo.Revision >= at })
	w := f.dispatcher.Pull(f.workers.NewQueue(), feed.Interest{}, catchup.FromPosition(from), dispatch.Options{})
	defer w.Close()
	for events := 0; events == 0; {
		m, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if events = m.Count; !m.Arrived.IsZero() {
			t.Errorf("got arrival %v for a message of kind %v, want none", m.Arrived, m.Header.Kind)
		}
	}
}

// recordingObserver records the reports.
type recordingObserver struct {
	wants   bool
	reports chan feed.Dispatched
}

func (o *recordingObserver) Wants() bool                  { return o.wants }
func (o *recordingObserver) Dispatched(d feed.Dispatched) { o.reports <- d }

// The observer gets the number of concerned feeds for each revision.
func TestObserverGetsEachRevision(t *testing.T) {
	o := &recordingObserver{wants: true, reports: make(chan feed.Dispatched, 10)}
	f := startDispatching(t, limits{observer: o})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begin := catchup.FromNow(f.cacher.State().Position())
	for _, i := range []feed.Interest{{}, {Scope: object.ExactKey("k")}, {Scope: object.ExactKey("other")}} {
		w := f.dispatcher.Pull(f.workers.NewQueue(), i, begin, dispatch.Options{})
		defer w.Close()
		if _, err := w.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	at := f.store.Put("k", "v")
	d := <-o.reports
	if d.Revision != at || d.Feeds != 2 {
		t.Errorf("got revision %d and %d feeds, want %d and 2", d.Revision, d.Feeds, at)
	}
	for n, times := range [][2]time.Time{{d.Arrived, d.Applied}, {d.Applied, d.Ended}, {d.Began, d.Ended}} {
		if times[0].After(times[1]) {
			t.Errorf("times %d: %v is after %v", n, times[0], times[1])
		}
	}
}
