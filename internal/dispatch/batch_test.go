package dispatch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// pollOne returns the next batch of a watcher, which must be the last one.
func pollOne(t testing.TB, w *dispatch.Polled) *feed.Batch {
	t.Helper()
	b, outcome := w.Poll(time.Now())
	if outcome != dispatch.Found {
		t.Fatalf("got outcome %d, want a batch", outcome)
	}
	if !w.NothingFollows(b) {
		t.Fatal("more events follow the batch")
	}
	return b
}

var everyDelivery = []dispatch.Options{{}, {Latest: true}, {EveryEvent: true}}

// All watchers of an interest at the same position share a batch, whatever their options,
// and it is encoded for the network once.
func TestWatchersAtOnePositionShareABatch(t *testing.T) {
	f := startDispatching(t, limits{})
	crowd := f.gather(t, 99, feed.Interest{}, everyDelivery...)
	for range 10 {
		crowd.after(func() { f.store.Put("k", "v") })
		first := crowd.members[0].last
		encodings := 0
		for _, s := range crowd.members {
			if s.last != first {
				t.Fatal("a watcher got a batch of its own")
			}
			if encoded := first.Encoded(func(m *feed.Message) any { encodings++; return m.Header }); encoded != first.Header {
				t.Errorf("got encoding %v, want %v", encoded, first.Header)
			}
		}
		if encodings != 1 {
			t.Fatalf("got %d encodings of the message, want 1", encodings)
		}
	}
	if n := f.encoder.events.Load(); n != 10 {
		t.Errorf("got %d encodings of events, want 10", n)
	}
}

// polled returns a watcher that is caught up. The test polls its batches.
func (f *fixture) polled(t testing.TB, i feed.Interest, o dispatch.Options) *dispatch.Polled {
	t.Helper()
	w := f.dispatcher.Poll(f.workers.NewQueue(), i, catchup.FromNow(f.cacher.State().Position()), o)
	t.Cleanup(w.Close)
	for _, want := range []bool{true, false} {
		if m, ok, err := w.Try(); ok != want || err != nil {
			t.Fatalf("got message %+v, %v, error %v; want message %v", m, ok, err, want)
		}
	}
	return w
}

// wantBatch polls a watcher, and checks that it gets these events in one batch.
func wantBatch(t testing.TB, w *dispatch.Polled, want string) *feed.Batch {
	t.Helper()
	b := pollOne(t, w)
	if got := show(decode(t, b.Message).Events); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	return b
}

// A watcher at another position, or of another interest, has a batch of its own.
func TestOtherWatchersHaveOtherBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		synctest.Wait()
		ahead, behind, beside := f.polled(t, feed.Interest{}, dispatch.Options{}), f.polled(t, feed.Interest{}, dispatch.Options{}), f.polled(t, feed.Interest{}, dispatch.Options{})
		other := f.polled(t, feed.Interest{Scope: object.ExactKey("b")}, dispatch.Options{})
		f.store.Put("a", "1")
		synctest.Wait()
		wantBatch(t, ahead, "+a=1")
		f.store.Put("b", "1")
		synctest.Wait()
		wantBatch(t, ahead, "+b=1")
		both := wantBatch(t, behind, "+a=1 +b=1")
		if wantBatch(t, beside, "+a=1 +b=1") != both {
			t.Error("two watchers that missed the same events got different batches")
		}
		wantBatch(t, other, "+b=1")
		for range 10 { // more batches than the cache keeps
			f.store.Put("a", "2")
			synctest.Wait()
			if wantBatch(t, ahead, "~a=2") != wantBatch(t, behind, "~a=2") {
				t.Error("two watchers at the same position got different batches")
			}
		}
		wantBatch(t, beside, strings.TrimSpace(strings.Repeat("~a=2 ", 10)))
	})
}

// Watchers share the parts of a revision that is larger than a message. A watcher with
// LATEST shares the first part; the rest is merged.
func TestPartsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{messageBytes: 200})
		synctest.Wait()
		every, twin := f.polled(t, feed.Interest{}, dispatch.Options{}), f.polled(t, feed.Interest{}, dispatch.Options{EveryEvent: true})
		latest := f.polled(t, feed.Interest{}, dispatch.Options{Latest: true})
		writes := map[object.Key][]byte{}
		for i := range 10 {
			writes[object.Key(fmt.Sprint("key ", i))] = make([]byte, 50)
		}
		f.store.Commit(writes)
		synctest.Wait()
		parts, events, latestEvents := 0, 0, 0
		for {
			part, outcome := every.Poll(time.Now())
			if same, _ := twin.Poll(time.Now()); outcome != dispatch.Found || same != part {
				t.Fatalf("part %d: got outcome %d, and the twin got another batch", parts, outcome)
			}
			if parts == 0 {
				if same, _ := latest.Poll(time.Now()); same != part {
					t.Error("the watcher with LATEST got another first part")
				}
				latestEvents = part.Count
				if _, outcome := latest.Poll(time.Now()); outcome != dispatch.Refused {
					t.Errorf("after the first part: got outcome %d, want %d", outcome, dispatch.Refused)
				}
			}
			parts, events = parts+1, events+part.Count
			if final := every.NothingFollows(part); final == part.Header.Partial {
				t.Fatalf("part %d: partial is %v, final %v", parts, part.Header.Partial, final)
			} else if final {
				break
			}
		}
		if parts < 3 || events != 10 {
			t.Errorf("got %d events in %d parts, want 10 in at least 3", events, parts)
		}
		for {
			rest, ok, err := latest.Try()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			latestEvents += rest.Count
		}
		if latestEvents != 10 {
			t.Errorf("the watcher with LATEST got %d events, want 10", latestEvents)
		}
	})
}

// The log does not have merged events, so a watcher with LATEST needs its handler for them.
func TestMergedEventsNeedTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		synctest.Wait()
		every, latest, twin := f.polled(t, feed.Interest{}, dispatch.Options{}), f.polled(t, feed.Interest{}, dispatch.Options{Latest: true}), f.polled(t, feed.Interest{}, dispatch.Options{Latest: true})
		f.store.Put("a", "1")
		f.store.Put("b", "1")
		f.store.Put("a", "2")
		synctest.Wait()
		wantBatch(t, every, "+a=1 +b=1 ~a=2")
		for _, w := range []*dispatch.Polled{latest, twin} {
			if b, outcome := w.Poll(time.Now()); outcome != dispatch.Refused {
				t.Errorf("got outcome %d and batch %v, want %d", outcome, b, dispatch.Refused)
			}
			m, ok, err := w.Try()
			if got := show(decode(t, m).Events); !ok || err != nil || got != "+b=1 +a=2" {
				t.Errorf("got %q, %v", got, err)
			}
		}
		f.store.Put("c", "1")
		f.store.Put("b", "2")
		synctest.Wait()
		if wantBatch(t, latest, "+c=1 ~b=2") != wantBatch(t, twin, "+c=1 ~b=2") {
			t.Error("two watchers without anything to merge got different batches")
		}
	})
}

// A watcher needs its handler for events that the log does not have, and when it cannot have
// every event.
func TestEventsOutsideTheLogNeedTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{logBytes: 1 << 10})
		synctest.Wait()
		w := f.polled(t, feed.Interest{}, dispatch.Options{})
		for i := range 100 {
			f.store.Put(object.Key(fmt.Sprint("key ", i)), strings.Repeat("x", 100))
		}
		synctest.Wait()
		if _, outcome := w.Poll(time.Now()); outcome != dispatch.Refused {
			t.Fatalf("got outcome %d, want %d", outcome, dispatch.Refused)
		}
		events := 0
		for {
			m, ok, err := w.Try()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			events += m.Count
		}
		if events != 100 {
			t.Errorf("got %d events, want 100", events)
		}
		f.store.Put("key", "1")
		synctest.Wait()
		wantBatch(t, w, "+key=1")

		strict := f.polled(t, feed.Interest{}, dispatch.Options{EveryEvent: true})
		f.store.Change(func() { f.store.Quiet = true })
		f.store.Put("key", "2")
		at := f.store.Put("key", "3")
		f.store.Change(func() { f.store.Compacted, f.store.Quiet = at, false })
		time.Sleep(time.Minute)
		if b, outcome := strict.Poll(time.Now()); outcome != dispatch.Refused {
			t.Errorf("got outcome %d and batch %+v, want %d", outcome, b, dispatch.Refused)
		}
		var lost *catchup.LostError
		if _, _, err := strict.Try(); !errors.As(err, &lost) {
			t.Errorf("got %v, want a LostError", err)
		}
	})
}

func TestAnEventAllocatesNothingForEachWatcher(t *testing.T) {
	for name, events := range map[string]int{"one event": 1, "many events": 100} {
		t.Run(name, func(t *testing.T) {
			allocations := func(watchers int) float64 {
				f := startDispatching(t, limits{})
				crowd := f.gather(t, watchers, feed.Interest{}, everyDelivery...)
				writes := map[object.Key][]byte{}
				for i := range events {
					writes[object.Key(fmt.Sprint("key ", i))] = []byte("value")
				}
				return testing.AllocsPerRun(20, func() {
					crowd.forget()
					crowd.after(func() { f.store.Commit(writes) })
				})
			}
			const few, many = 10, 1000
			if a, b := allocations(few), allocations(many); b > a+few {
				t.Errorf("got %v allocations for %d watchers and %v for %d", a, few, b, many)
			}
		})
	}
}
