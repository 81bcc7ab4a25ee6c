package dispatch_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// Those who wait are told without being polled: those of one lane one after another,
// however they came, and counted together.
func TestFollowersAreToldTogether(t *testing.T) {
	const lanes, each, events = 5, 40, 10
	f := startDispatching(t, limits{})
	c := &crowd{}
	on := make([]*sendqueue.Queue, lanes)
	for i := range on {
		on[i] = f.workers.NewQueue()
	}
	for n := range lanes * each {
		c.seats = append(c.seats, f.seat(t, c, on[n%lanes], dispatch.Interest{}, dispatch.Options{Latest: n%3 == 0}))
		if n == lanes*each/2 {
			c.after(func() { f.store.Put("k", "v") }) // the others join those who are in order
		}
	}
	for range events {
		f.wait()
		c.forget()
		c.after(func() { f.store.Put("k", "v") })
		f.wait()
		if turns := slices.Compact(slices.Clone(c.order)); len(c.order) != lanes*each || len(turns) != lanes {
			t.Fatalf("%d were told, in %d turns of %d lanes", len(c.order), len(turns), lanes)
		}
		counted := 0
		for _, n := range c.counts {
			counted += n
		}
		if counted != lanes*each || len(c.counts) > lanes*each/10 {
			t.Fatalf("%d were counted, in %d times", counted, len(c.counts))
		}
	}
	for _, s := range c.seats {
		if s.polls != 1 {
			t.Fatalf("somebody who waits was polled %d times", s.polls-1)
		}
	}
	if c.far > 0 {
		t.Errorf("%d times somebody was told something who had not been looked at", c.far)
	}
}

// Who has no room for a message is told nothing until it asks, then all that it has
// missed, and then what the others are told.
func TestAFollowerThatHasNoRoomIsToldLater(t *testing.T) {
	f := startDispatching(t, limits{})
	c := f.gather(t, 3, dispatch.Interest{}, dispatch.Options{})
	slow := c.seats[1]
	slow.full = true
	others := &crowd{seats: []*seat{c.seats[0], c.seats[2]}}
	for _, s := range others.seats {
		s.crowd = others
	}
	for i := range 5 {
		others.after(func() { f.store.Put("k", fmt.Sprint(i)) })
	}
	f.wait()
	if slow.last != nil {
		t.Fatal("it was told something")
	}
	slow.full = false
	alone := &crowd{seats: []*seat{slow}}
	slow.crowd = alone
	alone.after(slow.task.Ready)
	if got, want := show(decode(t, slow.last.Message).Events), "+k=0 ~k=1 ~k=2 ~k=3 ~k=4"; got != want {
		t.Errorf("it was told %q, want %q", got, want)
	}
	polls := slow.polls
	alone.told.Add(1)
	others.after(func() { f.store.Put("k", "5") })
	alone.told.Wait()
	if slow.last != others.seats[0].last || slow.polls != polls {
		t.Errorf("it was told something else, or polled %d times", slow.polls-polls)
	}
}

// What does not fit into one message is told in several, though nothing happens any more.
func TestFollowersAreToldInParts(t *testing.T) {
	f := startDispatching(t, limits{messageBytes: 200})
	c := f.gather(t, 10, dispatch.Interest{}, everyDelivery...)
	writes := map[object.Key][]byte{}
	for i := range 10 {
		writes[object.Key(fmt.Sprint("key ", i))] = make([]byte, 50)
	}
	told := make(map[*seat]int)
	c.each = func(s *seat, m *dispatch.Telling) {
		if told[s] += m.Count; told[s] == 10 {
			c.told.Done()
		}
	}
	c.after(func() { f.store.Commit(writes) })
}

// What changes everything is heard by those who wait, though no event concerns them.
func TestFollowersAreLookedAfterWhenHistoryIsLost(t *testing.T) {
	waiting := func(t *testing.T, do func(f *fixture)) *seat {
		f := start(t, limits{})
		for range 10 {
			f.store.Put("other", "1") // so that revisions of the next epoch are smaller
		}
		synctest.Wait()
		c := &crowd{each: func(*seat, *dispatch.Telling) {}}
		s := f.seat(t, c, f.workers.NewQueue(), dispatch.Interest{Scope: object.ExactKey("quiet")}, dispatch.Options{EveryEvent: true})
		do(f)
		time.Sleep(time.Minute)
		f.wait()
		return s
	}
	t.Run("relist", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := waiting(t, func(f *fixture) {
				f.store.Change(func() { f.store.Quiet = true })
				f.store.Put("other", "1")
				at := f.store.Put("other", "2")
				f.store.Change(func() { f.store.Compacted, f.store.Quiet = at, false })
			})
			if _, lost := errors.AsType[*dispatch.LostError](s.ended); !lost {
				t.Errorf("it has ended with %v", s.ended)
			}
		})
	})
	t.Run("epoch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := waiting(t, func(f *fixture) {
				f.store.Change(func() { f.store.Down = object.ErrUnavailable })
				synctest.Wait()
				f.store.Restart("e2")
				f.store.Put("other", "2")
				f.store.Change(func() { f.store.Down = nil })
			})
			if _, changed := errors.AsType[*dispatch.EpochError](s.ended); !changed {
				t.Errorf("it has ended with %v", s.ended)
			}
		})
	})
}

// Who leaves and who comes does not become somebody else.
func TestWhoLeavesIsNobodyElse(t *testing.T) {
	f := startDispatching(t, limits{})
	c := f.gather(t, 6, dispatch.Interest{}, dispatch.Options{})
	put := func(told ...*seat) {
		t.Helper()
		now := &crowd{seats: told}
		for _, s := range c.seats {
			s.last, s.crowd = nil, now
		}
		now.after(func() { f.store.Put("k", "v") })
		f.wait()
		for _, s := range c.seats {
			if (s.last != nil) != slices.Contains(told, s) {
				t.Errorf("told is %v", s.last)
			}
		}
	}
	s := c.seats
	s[0].full = true
	put(s[1], s[2], s[3], s[4], s[5])
	s[3].gone = true
	s[3].Close()
	put(s[1], s[2], s[4], s[5])
	for _, one := range s[1:5] {
		one.gone = true
		one.Close()
	}
	f.wait()
	put(s[5])
}

// Who was told something by Tell does not hear soon after that it has been silent.
func TestFollowersThatAreToldHaveNotBeenSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		synctest.Wait()
		told := make(chan object.MessageKind, 10)
		c := &crowd{each: func(_ *seat, m *dispatch.Telling) { told <- m.Header.Kind }}
		f.seat(t, c, f.workers.NewQueue(), dispatch.Interest{}, dispatch.Options{BookmarkInterval: 10 * time.Second})
		time.Sleep(9 * time.Second)
		f.store.Put("k", "v")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n, kind := len(told), <-told; n != 1 || kind != object.Live {
			t.Errorf("told %d messages, the first of kind %v", n, kind)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n, kind := len(told), <-told; n != 1 || kind != object.Bookmark {
			t.Errorf("told %d messages, the first of kind %v", n, kind)
		}
	})
}

// What others are told is taken if it is the next message, and nothing else is.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{messageBytes: 200})
		synctest.Wait()
		every, latest, strict := dispatch.Options{}, dispatch.Options{Latest: true}, dispatch.Options{EveryEvent: true}
		at := func(o dispatch.Options) *dispatch.Watcher { return f.asked(t, dispatch.Interest{}, o) }
		take := func(w *dispatch.Watcher, told *dispatch.Telling, want dispatch.Outcome) {
			t.Helper()
			if got := w.Take(told, time.Now()); got != want {
				t.Errorf("the outcome is %d, want %d", got, want)
			}
		}
		put := func(key object.Key, value string) {
			f.store.Put(key, value)
			synctest.Wait()
		}

		first, second, behind, merges := at(every), at(strict), at(every), at(latest)
		put("a", "1")
		a := wantTold(t, first, "+a=1")
		take(second, a, dispatch.Told)
		take(second, a, dispatch.Nothing)
		put("b", "1")
		b := wantTold(t, first, "+b=1")
		take(behind, b, dispatch.Elsewhere)
		take(second, b, dispatch.Told)
		half := at(every) // knows a and b
		put("a", "2")
		wantTold(t, half, "~a=2")
		both := at(every)
		put("b", "2")
		all := wantTold(t, first, "~a=2 ~b=2")
		take(half, all, dispatch.Elsewhere)
		take(both, all, dispatch.Elsewhere)
		take(second, all, dispatch.Told)
		take(merges, wantTold(t, behind, "+a=1 +b=1 ~a=2 ~b=2"), dispatch.Elsewhere)

		// A revision in parts.
		first, second, merges = at(every), at(every), at(latest)
		late := at(every)
		f.store.Put("other", "")
		writes := map[object.Key][]byte{}
		for i := range 9 {
			writes[object.Key(fmt.Sprint("key ", i))] = make([]byte, 50)
		}
		wantNext := func() *dispatch.Telling {
			t.Helper()
			part, outcome := first.Poll(time.Now())
			if outcome != dispatch.Told {
				t.Fatalf("the outcome is %d", outcome)
			}
			return part
		}
		synctest.Wait()
		other := wantNext()
		for _, w := range []*dispatch.Watcher{second, merges, late} {
			take(w, other, dispatch.Told)
		}
		first.Settle(time.Now())
		f.store.Commit(writes)
		synctest.Wait()
		one, two := wantNext(), wantNext()
		if !one.Header.Partial || !two.Header.Partial {
			t.Fatal("there are not as many parts as the test needs")
		}
		take(second, one, dispatch.Told)
		take(merges, one, dispatch.Elsewhere)
		take(late, two, dispatch.Elsewhere)
		take(second, one, dispatch.Elsewhere)
		take(second, two, dispatch.Told)
		take(second, two, dispatch.Elsewhere)
	})
}
