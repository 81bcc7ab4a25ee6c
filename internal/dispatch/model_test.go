package dispatch_test

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/seed"
)

// Whatever happens to the store, to the server and to the subscribers, one thing
// after the other: what a subscriber is told is what the judge and the naive model
// say that it has to be.
func TestGuaranteesOneStepAtATime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	happened := tally{}
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) { stepByStep(t, happened) })
	})
	happened.report(t)
}

func stepByStep(t *rapid.T, happened tally) {
	choose := chooser(func(what string, n int) int { return evenly(n).Draw(t, what) })
	y := newSystem(smallLimits(choose))
	subscribers := make([]*subscriber, 5)
	t.Cleanup(func() {
		for _, s := range subscribers {
			if s != nil {
				s.leave()
			}
		}
		y.server().stop()
		y.workers.Stop()
	})
	for i := range subscribers {
		s, err := newSubscriber(fmt.Sprint("subscriber ", i), choose)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && choose.often("twin", 4) {
			// Another one with the same interest, perhaps with other options.
			s.interest = subscribers[i-1].interest
			asked := subscribers[i-1].asked
			asked.Watcher, asked.Latest, asked.EveryEvent, asked.Bookmarks = s.asked.Watcher, s.asked.Latest, s.asked.EveryEvent, s.asked.Bookmarks
			s.asked = asked
		}
		subscribers[i] = s
	}
	read := func(s *subscriber) {
		y.server().cacher.Advance()
		synctest.Wait()
		if s.open == nil {
			s.begin(y.server())
		}
		if err := s.read(1 + choose("messages", 8)); err != nil {
			t.Fatal(err)
		}
	}
	everybody := func() {
		for _, s := range subscribers {
			read(s)
		}
	}
	somebody := func() *subscriber { return pick(choose, "who", subscribers...) }
	t.Repeat(map[string]func(*rapid.T){
		"write": func(*rapid.T) { y.write(choose, 1+choose("commits", 6)) },
		"flood": func(*rapid.T) { y.write(choose, 10+choose("commits", 20)) },
		"rest":  func(*rapid.T) { rest(choose) },
		"leave": func(*rapid.T) { somebody().leave() },
		"open": func(*rapid.T) {
			if s := somebody(); s.open == nil {
				synctest.Wait()
				s.begin(y.server())
			}
		},
		"read": func(*rapid.T) { read(somebody()) },
		"everybody reads what comes": func(*rapid.T) {
			for range 1 + choose("rounds", 4) {
				y.write(choose, 1+choose("commits", 4))
				everybody()
			}
		},
		"everybody waits for what comes": func(*rapid.T) {
			y.server().cacher.Advance()
			for _, s := range subscribers {
				synctest.Wait()
				if s.open == nil {
					s.begin(y.server())
				}
			}
			for range 1 + choose("rounds", 4) {
				if err := waiting(subscribers, func() { y.write(choose, 1+choose("commits", 3)) }); err != nil {
					t.Fatal(err)
				}
			}
		},
		"everybody comes back": func(*rapid.T) {
			for range 1 + choose("rounds", 3) {
				for _, s := range subscribers {
					s.leave()
				}
				y.write(choose, choose("commits", 5))
				everybody()
			}
		},
		"trouble": func(*rapid.T) { pick(choose, "trouble", y.silence, y.outage, y.restore, y.restart)(choose) },
	})
	y.settle()
	for _, s := range subscribers {
		if err := s.catchUp(y); err != nil {
			t.Fatal(err)
		}
		s.leave()
	}
	y.end()
	happened.judge(t, y, subscribers)
}

// waiting has something done while everybody waits who has a stream, and lets each of
// them be told one message.
func waiting(subscribers []*subscriber, do func()) error {
	errs := make([]error, len(subscribers))
	var reading sync.WaitGroup
	for i, s := range subscribers {
		for s.open != nil && errs[i] == nil {
			errs[i] = s.receive(1109 * time.Microsecond)
		}
		if s.open != nil {
			reading.Go(func() { errs[i] = s.receive(3_001_159 * time.Microsecond) })
		}
	}
	synctest.Wait()
	do()
	reading.Wait()
	for i, err := range errs {
		if errors.Is(err, errNothing) || errors.Is(err, errEnded) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// The same with everybody at once: subscribers who come, read, pause and leave, while
// a writer writes and trouble comes.
func TestGuaranteesAllAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	first := seed.New(t)
	happened := tally{}
	for round := range seed.Seed(6) {
		synctest.Test(t, func(t *testing.T) { allAtOnce(t, first+round, happened) })
	}
	happened.report(t)
}

func allAtOnce(t *testing.T, random seed.Seed, happened tally) {
	chooserOf := func(actor int) chooser {
		rng := random.Rand(uint64(actor))
		return func(_ string, n int) int { return rng.IntN(n) }
	}
	choose := chooserOf(0)
	y := newSystem(smallLimits(choose))
	y.hasty = true
	subscribers := make([]*subscriber, 20)
	written := make(chan struct{})
	var reading sync.WaitGroup
	for i := range subscribers {
		var err error
		subscribers[i], err = newSubscriber(fmt.Sprint("subscriber ", i), chooserOf(1+i))
		if err != nil {
			t.Fatal(err)
		}
		reading.Go(func() {
			s := subscribers[i]
			defer s.leave()
			if err := s.live(y, written); err != nil {
				t.Error(err)
			}
		})
	}
	for range 100 {
		y.write(choose, 1+choose("commits", 8))
		if choose.often("rest", 7) {
			rest(choose)
		}
		if choose("trouble", 15) == 0 {
			pick(choose, "trouble", y.silence, y.outage, y.restore, y.restart)(choose)
		}
	}
	y.settle()
	close(written)
	reading.Wait()
	y.end()
	happened.judge(t, y, subscribers)
}

// evenly returns a generator of numbers below n, all of which are as likely. Those of
// the library prefer small ones, and then most subscribers are alike.
func evenly(n int) *rapid.Generator[int] {
	return rapid.Custom(func(t *rapid.T) int {
		v := 0
		for range bits.Len(uint(n-1)) + 2 {
			v <<= 1
			if rapid.Bool().Draw(t, "bit") {
				v++
			}
		}
		return v % n
	})
}

// tally counts what has happened.
type tally map[string]int

// judge judges everybody, and counts what happened to them.
func (c tally) judge(t interface {
	Helper()
	Errorf(format string, args ...any)
}, y *system, subscribers []*subscriber,
) {
	t.Helper()
	var pasts []*past
	for _, w := range y.worlds {
		pasts = append(pasts, newPast(w.history, w.Gaps))
	}
	for _, s := range subscribers {
		met := func(p pair) { c[fmt.Sprintf("merged %d and %d", p.waiting, p.comes)]++ }
		if err := s.judge(y.worlds, pasts, met); err != nil {
			var b strings.Builder
			for i, w := range y.worlds {
				fmt.Fprintf(&b, "epoch %s, gaps %v\n", w.epoch, w.Gaps)
				if truth, err := w.truth(pasts[i]); err == nil {
					_ = truth.Print(&b)
				}
			}
			for _, p := range s.parts {
				_ = p.Print(&b)
			}
			t.Errorf("%v\n%s", err, b.String())
		}
		c.count(s)
	}
}

func (c tally) count(s *subscriber) {
	for what, n := range s.byWorker {
		c["worker: "+what] += n
	}
	for _, p := range s.parts {
		for i := range p.Streams {
			stream := &p.Streams[i]
			if stream.Status != "" {
				c["ended: "+stream.Status]++
			}
			c.countMessages(p, stream)
		}
	}
}

func (c tally) countMessages(p *part, stream *check.Stream) {
	mode := "live"
	for j, m := range stream.Messages {
		switch m.Kind {
		case object.CatchUpBegin:
			mode = map[object.CatchUp]string{object.Replay: "REPLAY", object.Delta: "DELTA", object.Reset: "RESET"}[m.CatchUp]
			if j == 0 {
				c[mode+" at the beginning"]++
			} else {
				c[mode+" in the stream"]++
			}
			if stream.Exact > 0 && j == 0 {
				c["RESET to a revision of the past"]++
			}
		case object.Bookmark:
			c["bookmark"]++
		}
		if m.Partial {
			c["partial "+mode]++
			if p.Latest {
				c["partial and merged"]++
			}
		}
		for _, e := range m.Events {
			c[fmt.Sprintf("%s event of type %d", mode, e.Type)]++
			if e.Object.Opaque {
				c["opaque"]++
			}
			if e.Previous != nil {
				c["previous"]++
			}
		}
		if m.Kind == object.Synced {
			mode = "live"
		}
	}
}

// report fails the test where something never happened.
func (c tally) report(t *testing.T) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(c)) {
		t.Logf("%7d %s", c[what], what)
	}
	if testing.Short() {
		return // too few rounds to have seen everything
	}
	for _, what := range []string{
		"REPLAY at the beginning", "DELTA at the beginning", "RESET at the beginning", "DELTA in the stream", "RESET in the stream",
		"RESET to a revision of the past", "partial live", "partial REPLAY", "partial and merged", "bookmark",
		"merged 1 and 2", "merged 1 and 3", "merged 2 and 2", "merged 2 and 3", "merged 3 and 1",
		"live event of type 1", "live event of type 2", "live event of type 3",
		"REPLAY event of type 1", "REPLAY event of type 2", "REPLAY event of type 3",
		"DELTA event of type 1", "DELTA event of type 2", "DELTA event of type 3", "RESET event of type 1",
		"opaque", "previous", "ended: " + check.StatusPositionExpired, "ended: " + check.StatusEpochChanged,
		"worker: " + sent, "worker: " + counted, "worker: " + full, "worker: " + handedBack, "worker: " + byHandler,
	} {
		if c[what] == 0 {
			t.Errorf("the test is too easy: nothing was seen of %q", what)
		}
	}
}
