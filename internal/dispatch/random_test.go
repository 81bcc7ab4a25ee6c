package dispatch_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/check"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/seed"
)

// Everything that a watch guarantees, with limits so small that each source of
// events is used all the time: watchers of random scopes read, pause, leave and
// come back, while a writer writes. The judge knows what has happened.
func TestGuaranteesUnderRandomLoad(t *testing.T) {
	first := seed.New(t)
	for round := range seed.Seed(10) {
		synctest.Test(t, func(t *testing.T) { randomLoad(t, first, round) })
	}
}

func randomLoad(t *testing.T, first, round seed.Seed) {
	rng := (first + round).Rand
	f := start(t, limits{window: 200, messageBytes: 500, feedBytes: 4 << 10})
	scopes := []object.Scope{{}, prefix(t, "a"), prefix(t, "a/b"), prefix(t, "c"), object.ExactKey("a/b/0"), object.ExactKey("c/1"), object.ExactKey("never")}

	written := make(chan struct{})
	readers := make([]*reader, 30)
	var reading sync.WaitGroup
	for i := range readers {
		readers[i] = &reader{
			fixture: f,
			rng:     rng(uint64(i)),
			written: written,
			history: check.History{Watcher: fmt.Sprintf("watcher %d", i), Scope: scopes[i%len(scopes)]},
		}
		reading.Go(func() { readers[i].run(t) })
	}
	write(f, rng(1000), 1500)
	close(written)
	reading.Wait()

	truth := f.truth(t)
	seen := map[string]int{}
	for _, r := range readers {
		if err := check.Validate(&r.history, truth); err != nil {
			t.Error(err)
		}
		for _, s := range r.history.Streams {
			for _, m := range s.Messages {
				if m.Partial {
					seen["partial"]++
				}
				if m.Kind == object.CatchUpBegin {
					seen[fmt.Sprint("catch-up ", m.CatchUp, " at start ", m.Position == s.Messages[0].Position)]++
				}
				if m.Kind == object.Live {
					seen["live"]++
				}
			}
		}
	}
	if round == 0 {
		t.Logf("%d changes: %v", truth.Len(), seen)
	}
	for _, what := range []string{"partial", "live"} {
		if seen[what] == 0 {
			t.Errorf("the test is too easy: nothing %s among %v", what, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// write makes commits of one key or of many, at random times.
func write(f *fixture, rng *rand.Rand, commits int) {
	keys := []object.Key{"a", "a/b", "ab", "d"}
	for i := range 8 {
		keys = append(keys, object.Key(fmt.Sprint("a/b/", i)), object.Key(fmt.Sprint("c/", i)))
	}
	for range commits {
		n := 1
		if rng.IntN(4) == 0 {
			n = 1 + rng.IntN(len(keys))
		}
		commit := map[object.Key][]byte{}
		for range n {
			commit[keys[rng.IntN(len(keys))]] = nil
			if rng.IntN(4) > 0 {
				commit[keys[rng.IntN(len(keys))]] = make([]byte, rng.IntN(80))
			}
		}
		f.store.Commit(commit)
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
		}
	}
}

// reader is a client that comes and goes.
type reader struct {
	*fixture
	rng     *rand.Rand
	written chan struct{} // closed when nothing is written any more
	history check.History
}

func (r *reader) run(t *testing.T) {
	for done := false; !done; {
		done = r.stream(t)
	}
}

// stream opens one watch and reads it for a while. It reports whether everything
// has been read.
func (r *reader) stream(t *testing.T) (done bool) {
	s := check.Stream{Begin: check.FromNothing}
	begin := dispatch.FromSnapshot(0)
	last, resumable := r.history.Position()
	switch n := r.rng.IntN(10); {
	case resumable && n < 7:
		s.Begin, s.Position = check.After, last
		begin = dispatch.After(last)
	case n == 7:
		s.Begin = check.FromNow
		begin = dispatch.FromNow(r.cacher.State().Position())
	}
	w := &watcher{Watcher: r.dispatcher.Watch(dispatch.Interest{Scope: r.history.Scope}, begin, dispatch.Options{}), stream: s}
	defer w.Close()
	defer func() { r.history.Streams = append(r.history.Streams, w.stream) }()
	for left := 1 + r.rng.IntN(60); ; left-- {
		finishing := closed(r.written)
		if left <= 0 && !finishing {
			return false
		}
		_, err := w.receive(t)
		switch {
		case err == nil:
		case errors.Is(err, errQuiet) && finishing:
			return true
		case !errors.Is(err, errQuiet):
			t.Error(err)
			return true
		}
		switch r.rng.IntN(20) {
		case 0: // so long that the feed forgets
			time.Sleep(time.Duration(r.rng.IntN(30)) * time.Millisecond)
		case 1: // so long that the window does
			time.Sleep(time.Duration(r.rng.IntN(300)) * time.Millisecond)
		}
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
