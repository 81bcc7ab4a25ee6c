package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/seed"
)

// churn starts and ends watches of a stream with every option.
type churn struct {
	t      testing.TB
	f      *fixture
	stream *testStream
	rand   *rand.Rand
	began  object.Position
	next   uint64 // the next id
	open   []*dispatch.StreamWatch
}

// step starts a watch, ends one, or writes.
func (c *churn) step() {
	switch n := c.rand.IntN(8); {
	case n < 3:
		c.start()
	case n < 5 && len(c.open) > 0:
		i := c.rand.IntN(len(c.open))
		c.stream.End(c.open[i], c.ending())
		c.open[i] = c.open[len(c.open)-1]
		c.open = c.open[:len(c.open)-1]
	case n < 6:
		c.next++
		c.stream.Refuse(c.next, errors.New("no"))
	case n < 7:
		c.f.store.Put(c.key(), "v")
	default:
		pass(time.Duration(c.rand.IntN(300)) * time.Millisecond)
	}
}

func (c *churn) key() object.Key { return object.Key(fmt.Sprint("churn/", c.rand.IntN(4))) }

func (c *churn) ending() dispatch.Ending {
	switch c.rand.IntN(3) {
	case 0:
		return dispatch.Ending{Deny: true} // a stop
	case 1:
		return dispatch.Ending{Reason: errors.New("a right was lost"), Deny: true}
	}
	return dispatch.Ending{Last: true}
}

func (c *churn) start() {
	c.next++
	if c.rand.IntN(8) == 0 {
		w := &dispatch.StreamWatch{ID: c.next}
		d := &directReader{messages: make(chan feed.Message, 1), failure: errors.New("the store is away")}
		d.messages <- feed.Message{Header: object.Header{Kind: object.CatchUpBegin, CatchUp: object.Reset, Position: c.began}}
		c.stream.StartDirect(w, d)
		c.add(w)
		return
	}
	var i feed.Interest
	switch c.rand.IntN(3) {
	case 0:
		i.Scope = object.ExactKey(c.key())
	case 1:
		i.Scope = prefix(c.t, "churn")
	}
	i.Projection.OmitValues = c.rand.IntN(2) == 0
	now := c.f.cacher.State().Position()
	begin := []catchup.Begin{
		catchup.FromSnapshot(0), catchup.FromNow(now), catchup.FromPosition(now), catchup.FromPosition(c.began),
		catchup.FromPosition(object.Position{Epoch: "old", Revision: 1}), catchup.FromExactly(now.Revision), catchup.FromExactly(1),
	}[c.rand.IntN(7)]
	c.add(c.stream.begin(c.f.dispatcher, c.next, i, begin, dispatch.Options{
		Latest:           c.rand.IntN(2) == 0,
		EveryEvent:       c.rand.IntN(2) == 0,
		BookmarkInterval: []time.Duration{0, 100 * time.Millisecond, time.Hour}[c.rand.IntN(3)],
		BatchDelay:       []time.Duration{0, time.Millisecond, time.Minute}[c.rand.IntN(3)],
	}))
}

// add notes a watch that was started, which may have a time limit.
func (c *churn) add(w *dispatch.StreamWatch) {
	if c.rand.IntN(2) == 0 {
		limit := []time.Duration{time.Second, time.Hour}[c.rand.IntN(2)]
		c.stream.EndAt(w, time.Now().Add(limit), dispatch.Ending{Last: true})
	}
	c.open = append(c.open, w)
}

// After watches with every option were started, refused, stopped and ended in any order, the stream
// holds what it held before, and an event allocates what it did.
func TestStreamIsFreshAfterChurn(t *testing.T) {
	first := seed.New(t)
	for round := range seed.Seed(20) {
		inBubble(t, limits{window: 10}, func(t *testing.T, f *fixture) {
			s := f.stream(t, dispatch.StreamConfig{})
			f.watchKey(s, 0, "k")
			event := func() float64 {
				return testing.AllocsPerRun(20, func() {
					f.store.Put("k", "v")
					synctest.Wait()
				})
			}
			s.take()
			allocations, holds := event(), s.Holds()
			s.take()
			random := (first + round).Rand(0)
			c := &churn{t: t, f: f, stream: s, rand: random, began: f.cacher.State().Position()}
			for n := range 400 {
				switch n {
				case 100:
					s.locked(func() { s.acquire = func(ctx context.Context, _ bool) error { <-ctx.Done(); return ctx.Err() } })
				case 200:
					s.locked(func() { s.acquire = func(context.Context, bool) error { return errors.New("too many snapshots") } })
				case 300:
					s.locked(func() { s.acquire = nil })
				}
				c.step()
				if random.IntN(10) == 0 {
					s.setRoom(random.IntN(2) - 1)
				}
				if random.IntN(10) == 0 {
					synctest.Wait()
				}
			}
			for _, w := range c.open {
				s.End(w, dispatch.Ending{Deny: true})
			}
			s.setRoom(-1)
			pass(100 * time.Millisecond)
			s.take()
			got := s.Holds()
			pass(time.Hour / 2) // the clock then notices that the watches with bookmarks have ended
			got.Interval = s.Holds().Interval
			s.take()
			if got != holds {
				t.Errorf("%s=%d: the stream holds %+v, want %+v", seed.Variable, first+round, got, holds)
			}
			if after := event(); after > allocations+5 {
				t.Errorf("%s=%d: an event allocates %v times, want %v", seed.Variable, first+round, after, allocations)
			}
		})
	}
}

// A watch that is stopped leaves the lists of the stream at once, also while others still wait for the
// end of their time, of their batch delay, or for the slot.
func TestStoppedWatchesLeaveTheStreamAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		begin   func(*fixture) catchup.Begin
		options dispatch.Options
		limit   time.Duration
		waiting func(dispatch.Holdings) int
	}{
		"end": {
			begin:   func(f *fixture) catchup.Begin { return catchup.FromNow(f.cacher.State().Position()) },
			limit:   time.Hour,
			waiting: func(h dispatch.Holdings) int { return h.Due },
		},
		"batch delay": {
			begin:   func(f *fixture) catchup.Begin { return catchup.FromNow(f.cacher.State().Position()) },
			options: dispatch.Options{BatchDelay: time.Minute},
			waiting: func(h dispatch.Holdings) int { return h.Due },
		},
		"batch delay of another watch": {
			begin:   func(*fixture) catchup.Begin { return catchup.FromSnapshot(0) },
			options: dispatch.Options{BatchDelay: time.Minute},
			waiting: func(h dispatch.Holdings) int { return h.Due + h.Delayed - 1 }, // without the other watch
		},
		"slot": {
			begin:   func(*fixture) catchup.Begin { return catchup.FromSnapshot(0) },
			waiting: func(h dispatch.Holdings) int { return h.Parked },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, limits{}, func(t *testing.T, f *fixture) {
				s := f.stream(t, dispatch.StreamConfig{})
				start := func(id uint64, key object.Key, b catchup.Begin) *dispatch.StreamWatch {
					w := s.begin(f.dispatcher, id, feed.Interest{Scope: object.ExactKey(key)}, b, test.options)
					if test.limit > 0 {
						s.EndAt(w, time.Now().Add(test.limit), dispatch.Ending{Last: true})
					}
					return w
				}
				put := func(key object.Key) {
					f.store.Put(key, "v")
					s.take()
				}
				const some = 100
				key := func(id uint64) object.Key { return object.Key(fmt.Sprint("k/", id)) }
				switch name {
				case "batch delay of another watch":
					start(some, "k", catchup.FromNow(f.cacher.State().Position()))
					s.take()
					put("k")
					put("k")
					key = func(uint64) object.Key { return "k" }
				case "slot":
					s.locked(func() { s.acquire = func(ctx context.Context, _ bool) error { <-ctx.Done(); return ctx.Err() } })
				}
				var all []*dispatch.StreamWatch
				for id := range uint64(some) {
					all = append(all, start(id, key(id), test.begin(f)))
				}
				s.take()
				if name == "batch delay" {
					for range 2 {
						for id := range uint64(some) {
							put(key(id))
						}
					}
				}
				if n := test.waiting(s.Holds()); n != some {
					t.Fatalf("got %d that wait, want %d", n, some)
				}
				for _, w := range all[1:] {
					s.End(w, dispatch.Ending{Deny: true})
				}
				s.take()
				if n := test.waiting(s.Holds()); n != 1 {
					t.Errorf("got %d that wait after all but one were stopped, want 1", n)
				}
			})
		})
	}
}

// An event costs nothing for watches of the stream whose events wait for their batch delay, nor for
// those that wait until they can share such a watch.
func TestStreamEventCostsNothingForDelayedWatches(t *testing.T) {
	const some = 100
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		delayed := dispatch.Options{BatchDelay: time.Minute}
		f.watchKey(s, 0, "k")
		for id := uint64(1); id <= some; id++ {
			i := feed.Interest{Scope: object.ExactKey(object.Key(fmt.Sprint("k/", id)))}
			s.begin(f.dispatcher, id, i, catchup.FromNow(f.cacher.State().Position()), delayed)
		}
		s.take()
		for n := range 2 {
			for id := 1; id <= some; id++ {
				f.store.Put(object.Key(fmt.Sprint("k/", id)), "v")
			}
			if got := s.take(); (len(got) > 0) != (n == 0) {
				t.Fatalf("got %d responses with the events of round %d", len(got), n)
			}
		}
		for id := uint64(1); id <= some; id++ {
			s.begin(f.dispatcher, some+id, feed.Interest{Scope: object.ExactKey("k/1")}, catchup.FromSnapshot(0), delayed)
		}
		s.take()
		if h := s.Holds(); h.Due != some || h.Delayed != some {
			t.Fatalf("got %d batch delays and %d watches that wait for one, want %d of both", h.Due, h.Delayed, some)
		}
		restore := s.Hollow(s.watches[0])
		f.store.Put("k", "v")
		s.want("0: +k=v")
		restore()
		s.Ready() // the worker sees what was restored before a timer wakes it
		pass(time.Minute)
		for id := range uint64(2 * some) {
			f.store.Put(object.Key(fmt.Sprint("k/", id)), "w")
		}
		s.take()
		if h := s.Holds(); h.Cursors != some+1 || h.Delayed != 0 {
			t.Errorf("got %d cursors and %d that wait after the delays, want %d and none", h.Cursors, h.Delayed, some+1)
		}
	})
}

// The watch with the shortest bookmark interval does not make the stream look for bookmarks after its
// end.
func TestStreamLooksForBookmarksAsOftenAsItsWatchesNeed(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		start := func(id uint64, interval time.Duration) *dispatch.StreamWatch {
			return s.begin(f.dispatcher, id, feed.Interest{}, catchup.FromNow(f.cacher.State().Position()), dispatch.Options{BookmarkInterval: interval})
		}
		start(1, time.Minute)
		short := start(2, 100*time.Millisecond)
		s.take()
		s.End(short, dispatch.Ending{Deny: true})
		pass(time.Second)
		s.take()
		if got := s.Holds().Interval; got != 30*time.Second {
			t.Errorf("the stream looks every %v, want every 30s", got)
		}
		start(2, 100*time.Millisecond)
		s.take()
		pass(time.Second)
		if n := len(s.take()); n < 5 {
			t.Errorf("a watch that needs bookmarks every 100ms got %d in a second", n)
		}
	})
}

// Watches that wait to share the cursor of a watch with a batch delay share one at once if that
// watch ends.
func TestWatchesDoNotWaitForAWatchThatHasEnded(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		start := func(id uint64, b catchup.Begin) *dispatch.StreamWatch {
			return s.begin(f.dispatcher, id, feed.Interest{Scope: object.ExactKey("k")}, b, dispatch.Options{BatchDelay: time.Minute})
		}
		first := start(1, catchup.FromNow(f.cacher.State().Position()))
		s.take()
		for range 2 { // the second event waits
			f.store.Put("k", "v")
			s.take()
		}
		for id := range uint64(10) {
			start(2+id, catchup.FromSnapshot(0))
		}
		s.take()
		if h := s.Holds(); h.Cursors != 11 || h.Delayed != 10 {
			t.Fatalf("got %d cursors, %d of which wait, want 11 and 10", h.Cursors, h.Delayed)
		}
		s.End(first, dispatch.Ending{Deny: true})
		s.take()
		if h := s.Holds(); h.Cursors != 1 || h.Delayed != 0 {
			t.Errorf("got %d cursors, %d of which wait, after the first watch has ended, want 1 and none", h.Cursors, h.Delayed)
		}
	})
}
