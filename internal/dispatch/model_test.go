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

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/seed"
)

// Random steps happen to the store, the server and the subscribers, one after another. The
// checker and the naive model then verify what each subscriber received.
func TestGuaranteesOneStepAtATime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	seen := counts{}
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) { stepByStep(t, seen) })
	})
	seen.report(t)
}

func stepByStep(t *rapid.T, seen counts) {
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
			// A twin has the same interest, perhaps with other options.
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
	readAll := func() {
		for _, s := range subscribers {
			read(s)
		}
	}
	anyone := func() *subscriber { return pick(choose, "subscriber", subscribers...) }
	t.Repeat(map[string]func(*rapid.T){
		"write": func(*rapid.T) { y.write(choose, 1+choose("commits", 6)) },
		"flood": func(*rapid.T) { y.write(choose, 10+choose("commits", 20)) },
		"pause": func(*rapid.T) { pause(choose) },
		"leave": func(*rapid.T) { anyone().leave() },
		"open": func(*rapid.T) {
			if s := anyone(); s.open == nil {
				synctest.Wait()
				s.begin(y.server())
			}
		},
		"read": func(*rapid.T) { read(anyone()) },
		"all read new events": func(*rapid.T) {
			for range 1 + choose("rounds", 4) {
				y.write(choose, 1+choose("commits", 4))
				readAll()
			}
		},
		"all wait for new events": func(*rapid.T) {
			y.server().cacher.Advance()
			for _, s := range subscribers {
				synctest.Wait()
				if s.open == nil {
					s.begin(y.server())
				}
			}
			for range 1 + choose("rounds", 4) {
				if err := doWhileWaiting(subscribers, func() { y.write(choose, 1+choose("commits", 3)) }); err != nil {
					t.Fatal(err)
				}
			}
		},
		"all leave and come back": func(*rapid.T) {
			for range 1 + choose("rounds", 3) {
				for _, s := range subscribers {
					s.leave()
				}
				y.write(choose, choose("commits", 5))
				readAll()
			}
		},
		"fault": func(*rapid.T) { pick(choose, "fault", y.silence, y.outage, y.restore, y.restart)(choose) },
	})
	y.settle()
	for _, s := range subscribers {
		if err := s.catchUp(y); err != nil {
			t.Fatal(err)
		}
		s.leave()
	}
	y.end()
	seen.validate(t, y, subscribers)
}

// doWhileWaiting calls a function while all subscribers with a stream wait. Each of them then
// receives one message.
func doWhileWaiting(subscribers []*subscriber, do func()) error {
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

// The same, concurrently: subscribers come, read, pause and leave while a writer writes and
// faults happen.
func TestGuaranteesAllAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	first := seed.New(t)
	seen := counts{}
	for round := range seed.Seed(6) {
		synctest.Test(t, func(t *testing.T) { allAtOnce(t, first+round, seen) })
	}
	seen.report(t)
}

func allAtOnce(t *testing.T, random seed.Seed, seen counts) {
	chooserOf := func(actor int) chooser {
		rng := random.Rand(uint64(actor))
		return func(_ string, n int) int { return rng.IntN(n) }
	}
	choose := chooserOf(0)
	y := newSystem(smallLimits(choose))
	y.concurrent = true
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
			if err := s.run(y, written); err != nil {
				t.Error(err)
			}
		})
	}
	for range 100 {
		y.write(choose, 1+choose("commits", 8))
		if choose.often("pause", 7) {
			pause(choose)
		}
		if choose("fault", 15) == 0 {
			pick(choose, "fault", y.silence, y.outage, y.restore, y.restart)(choose)
		}
	}
	y.settle()
	close(written)
	reading.Wait()
	y.end()
	seen.validate(t, y, subscribers)
}

// evenly returns a generator of numbers below n that are equally likely. The generators of
// the library prefer small numbers, which would make most subscribers alike.
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

// validate checks what all subscribers received, and counts what happened to them.
func (c counts) validate(t interface {
	Helper()
	Errorf(format string, args ...any)
}, y *system, subscribers []*subscriber,
) {
	t.Helper()
	var histories []*naiveHistory
	for _, e := range y.epochs {
		histories = append(histories, newNaiveHistory(e.history))
	}
	for _, s := range subscribers {
		onPair := func(p pair) { c[fmt.Sprintf("merged %d and %d", p.pending, p.next)]++ }
		if err := s.validate(y.epochs, histories, onPair); err != nil {
			var b strings.Builder
			for i, e := range y.epochs {
				fmt.Fprintf(&b, "epoch %s, gaps %v\n", e.name, e.Gaps)
				if truth, err := e.truth(histories[i]); err == nil {
					_ = truth.Print(&b)
				}
			}
			for _, r := range s.records {
				_ = r.Print(&b)
			}
			t.Errorf("%v\n%s", err, b.String())
		}
		c.count(s)
	}
}

func (c counts) count(s *subscriber) {
	for what, n := range s.happened {
		c["worker: "+what] += n
	}
	for _, r := range s.records {
		for i := range r.Streams {
			stream := &r.Streams[i]
			if stream.Status != "" {
				c["ended: "+stream.Status]++
			}
			c.countMessages(r, stream)
		}
	}
}

func (c counts) countMessages(r *epochRecord, stream *check.Stream) {
	mode := "live"
	for j, m := range stream.Messages {
		switch m.Kind {
		case object.CatchUpBegin:
			mode = map[object.CatchUpKind]string{object.Replay: "REPLAY", object.Delta: "DELTA", object.Reset: "RESET"}[m.CatchUp]
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
			if r.Latest {
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

// report logs the counts, and fails the test if something that it should cover never happened.
func (c counts) report(t *testing.T) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(c)) {
		t.Logf("%7d %s", c[what], what)
	}
	if testing.Short() {
		return // too few rounds to see everything
	}
	for _, what := range []string{
		"REPLAY at the beginning", "DELTA at the beginning", "RESET at the beginning", "DELTA in the stream", "RESET in the stream",
		"RESET to a revision of the past", "partial live", "partial REPLAY", "partial and merged", "bookmark",
		"merged 1 and 2", "merged 1 and 3", "merged 2 and 2", "merged 2 and 3", "merged 3 and 1",
		"live event of type 1", "live event of type 2", "live event of type 3",
		"REPLAY event of type 1", "REPLAY event of type 2", "REPLAY event of type 3",
		"DELTA event of type 1", "DELTA event of type 2", "DELTA event of type 3", "RESET event of type 1",
		"opaque", "previous", "ended: " + check.StatusPositionExpired, "ended: " + check.StatusEpochChanged,
		"worker: " + dispatch.SentByGroup, "worker: " + dispatch.SentByStream, "worker: " + dispatch.Counted, "worker: " + dispatch.Full,
	} {
		if c[what] == 0 {
			t.Errorf("the test is too easy: %q never happened", what)
		}
	}
}
