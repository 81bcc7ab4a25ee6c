package dispatch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// pollOne returns the next batch of a watcher, after which there is nothing.
func pollOne(t testing.TB, w *dispatch.Watcher) *dispatch.Batch {
	t.Helper()
	told, outcome := w.Poll(time.Now())
	if outcome != dispatch.Found {
		t.Fatalf("the outcome is %d", outcome)
	}
	if !w.Settle(told) {
		t.Fatal("there is more")
	}
	return told
}

var everyDelivery = []dispatch.Options{{}, {Latest: true}, {EveryEvent: true}}

// All watchers of an interest at the same position share a batch, whatever their options,
// and it is encoded for the network once.
func TestWatchersAtOnePositionShareABatch(t *testing.T) {
	f := startDispatching(t, limits{})
	crowd := f.gather(t, 99, dispatch.Interest{}, everyDelivery...)
	for range 10 {
		crowd.after(func() { f.store.Put("k", "v") })
		first := crowd.members[0].last
		made := 0
		for _, s := range crowd.members {
			if s.last != first {
				t.Fatal("a message of its own")
			}
			if form := first.Encoded(func(m *dispatch.Message) any { made++; return m.Header }); form != first.Header {
				t.Errorf("the form is %v", form)
			}
		}
		if made != 1 {
			t.Fatalf("the message was made %d times", made)
		}
	}
	if n := f.encoder.events.Load(); n != 10 {
		t.Errorf("10 events were encoded %d times", n)
	}
}

// asked returns a watcher that has sent everything. The test asks for its batches.
func (f *fixture) asked(t testing.TB, i dispatch.Interest, o dispatch.Options) *dispatch.Watcher {
	t.Helper()
	w := f.dispatcher.Asked(f.workers.NewQueue(), i, dispatch.FromNow(f.cacher.State().Position()), o)
	t.Cleanup(w.Close)
	for _, want := range []bool{true, false} {
		if m, ok, err := w.Try(); ok != want || err != nil {
			t.Fatalf("got %+v, %v", m, err)
		}
	}
	return w
}

// wantBatch polls a watcher, which has a batch with the events and nothing after it.
func wantBatch(t testing.TB, w *dispatch.Watcher, want string) *dispatch.Batch {
	t.Helper()
	told := pollOne(t, w)
	if got := show(decode(t, told.Message).Events); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	return told
}

// A watcher at another position, or of another interest, has a batch of its own.
func TestOtherWatchersHaveOtherBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		synctest.Wait()
		ahead, behind, beside := f.asked(t, dispatch.Interest{}, dispatch.Options{}), f.asked(t, dispatch.Interest{}, dispatch.Options{}), f.asked(t, dispatch.Interest{}, dispatch.Options{})
		other := f.asked(t, dispatch.Interest{Scope: object.ExactKey("b")}, dispatch.Options{})
		f.store.Put("a", "1")
		synctest.Wait()
		wantBatch(t, ahead, "+a=1")
		f.store.Put("b", "1")
		synctest.Wait()
		wantBatch(t, ahead, "+b=1")
		both := wantBatch(t, behind, "+a=1 +b=1")
		if wantBatch(t, beside, "+a=1 +b=1") != both {
			t.Error("two who have missed the same have a message each")
		}
		wantBatch(t, other, "+b=1")
		for range 10 { // more than are kept
			f.store.Put("a", "2")
			synctest.Wait()
			if wantBatch(t, ahead, "~a=2") != wantBatch(t, behind, "~a=2") {
				t.Error("two who are at the same place again have a message each")
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
		every, twin := f.asked(t, dispatch.Interest{}, dispatch.Options{}), f.asked(t, dispatch.Interest{}, dispatch.Options{EveryEvent: true})
		latest := f.asked(t, dispatch.Interest{}, dispatch.Options{Latest: true})
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
				t.Fatalf("part %d: outcome %d, and the twin is told another one", parts, outcome)
			}
			if parts == 0 {
				if same, _ := latest.Poll(time.Now()); same != part {
					t.Error("who wants the latest is told another part")
				}
				latestEvents = part.Count
				if _, outcome := latest.Poll(time.Now()); outcome != dispatch.Refused {
					t.Errorf("what comes behind the first part has the outcome %d", outcome)
				}
			}
			parts, events = parts+1, events+part.Count
			if settled := every.Settle(part); settled == part.Header.Partial {
				t.Fatalf("part %d: partial is %v, settled %v", parts, part.Header.Partial, settled)
			} else if settled {
				break
			}
		}
		if parts < 3 || events != 10 {
			t.Errorf("%d events in %d parts", events, parts)
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
			t.Errorf("who wants the latest was told of %d events", latestEvents)
		}
	})
}

// The log does not have merged events, so a watcher with LATEST needs its handler for them.
func TestMergedEventsNeedTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		synctest.Wait()
		every, latest, twin := f.asked(t, dispatch.Interest{}, dispatch.Options{}), f.asked(t, dispatch.Interest{}, dispatch.Options{Latest: true}), f.asked(t, dispatch.Interest{}, dispatch.Options{Latest: true})
		f.store.Put("a", "1")
		f.store.Put("b", "1")
		f.store.Put("a", "2")
		synctest.Wait()
		wantBatch(t, every, "+a=1 +b=1 ~a=2")
		for _, w := range []*dispatch.Watcher{latest, twin} {
			if told, outcome := w.Poll(time.Now()); outcome != dispatch.Refused {
				t.Errorf("the outcome is %d: %v", outcome, told)
			}
			m, ok, err := w.Try()
			if got := show(decode(t, m).Events); !ok || err != nil || got != "+b=1 +a=2" {
				t.Errorf("told %q, %v", got, err)
			}
		}
		f.store.Put("c", "1")
		f.store.Put("b", "2")
		synctest.Wait()
		if wantBatch(t, latest, "+c=1 ~b=2") != wantBatch(t, twin, "+c=1 ~b=2") {
			t.Error("of different keys there is nothing to merge, and two have a message each")
		}
	})
}

// A watcher needs its handler for events that the log does not have, and when it cannot have
// every event.
func TestEventsOutsideTheLogNeedTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{feedBytes: 1 << 10})
		synctest.Wait()
		w := f.asked(t, dispatch.Interest{}, dispatch.Options{})
		for i := range 100 {
			f.store.Put(object.Key(fmt.Sprint("key ", i)), strings.Repeat("x", 100))
		}
		synctest.Wait()
		if _, outcome := w.Poll(time.Now()); outcome != dispatch.Refused {
			t.Fatalf("the outcome is %d", outcome)
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
			t.Errorf("told of %d events", events)
		}
		f.store.Put("key", "1")
		synctest.Wait()
		wantBatch(t, w, "+key=1")

		strict := f.asked(t, dispatch.Interest{}, dispatch.Options{EveryEvent: true})
		f.store.Change(func() { f.store.Quiet = true })
		f.store.Put("key", "2")
		at := f.store.Put("key", "3")
		f.store.Change(func() { f.store.Compacted, f.store.Quiet = at, false })
		time.Sleep(time.Minute)
		if told, outcome := strict.Poll(time.Now()); outcome != dispatch.Refused {
			t.Errorf("the outcome is %d: %+v", outcome, told)
		}
		var lost *dispatch.LostError
		if _, _, err := strict.Try(); !errors.As(err, &lost) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnEventAllocatesNothingForEachWatcher(t *testing.T) {
	for name, events := range map[string]int{"one event": 1, "many events": 100} {
		t.Run(name, func(t *testing.T) {
			allocations := func(watchers int) float64 {
				f := startDispatching(t, limits{})
				crowd := f.gather(t, watchers, dispatch.Interest{}, everyDelivery...)
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
				t.Errorf("%v allocations for %d watchers, %v for %d", a, few, b, many)
			}
		})
	}
}
