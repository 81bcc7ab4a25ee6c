package direct_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/seed"
)

// Watchers of random interests read, pause, leave and return while a writer writes and
// compacts the history. The limits are small, so that rare cases happen all the time.
// Package check compares the recordings with the history of etcd.
func TestGuaranteesUnderRandomLoad(t *testing.T) {
	const commits = 1000
	rng := seed.New(t).Rand
	f := start(t, direct.Config{MessageBytes: 500, BufferBytes: 4 << 10, PageSize: 5})
	witness := f.witness(t)
	var reached progress
	interests := []feed.Interest{
		{},
		{Scope: below(t, "a")},
		{Scope: below(t, "a/b")},
		{Scope: object.ExactKey("a/b/0")},
		{Scope: object.ExactKey("never")},
		labelled(t, object.Scope{}, "color=red"),
		labelled(t, below(t, "c"), "color notin (red, green)"),
	}
	picks := map[int]func(*object.Decoded) bool{
		5: func(o *object.Decoded) bool { return o.Labels["color"] == "red" },
		6: func(o *object.Decoded) bool { return o.Labels["color"] != "red" && o.Labels["color"] != "green" },
	}
	readers := make([]*reader, 21)
	var reading sync.WaitGroup
	for i := range readers {
		n := i % len(interests)
		interest := interests[n]
		interest.Projection = object.Projection{Previous: i%2 == 0, OmitValues: i%5 == 0}
		readers[i] = &reader{
			fixture: f, rng: rng(uint64(i)), reached: &reached, interest: interest,
			// Bookmarks bring the watchers of quiet scopes to the last revision.
			options: dispatch.Options{Latest: i%3 == 0, BookmarkInterval: 50 * time.Millisecond},
			history: check.History{
				Watcher: fmt.Sprintf("watcher %d", i), Scope: interest.Scope, Picks: picks[n],
				Previous: interest.Projection.Previous, OmitValues: interest.Projection.OmitValues, Latest: i%3 == 0,
			},
		}
		reading.Go(func() { readers[i].run(t) })
	}
	write(t, f, rng(1000), commits, &reached, witness)
	reading.Wait()

	truth := witness.truth(t)
	seen := map[string]int{}
	for _, r := range readers {
		if err := check.Validate(&r.history, truth); err != nil {
			t.Error(err)
		}
		for _, s := range r.history.Streams {
			for i, m := range s.Messages {
				switch {
				case m.Partial:
					seen["partial"]++
				case m.Kind == object.CatchUpBegin:
					seen[fmt.Sprint(m.CatchUp, " at start ", i == 0)]++
				case m.Kind == object.Live:
					seen["live"]++
				}
			}
		}
	}
	t.Logf("%d changes: %v", truth.Len(), seen)
	for _, what := range []string{"partial", "live", "replay at start true", "reset at start false"} {
		if seen[what] == 0 {
			t.Errorf("the test never reached the case %q", what)
		}
	}
}

// progress counts the commits of the writer. Pausing readers wait for them.
type progress struct {
	commits atomic.Int64
	last    atomic.Int64 // the last revision; 0: not written yet

	replayed atomic.Bool // a watch began with a REPLAY

	mu      sync.Mutex
	changed chan struct{} // guarded by mu; closed and replaced with each commit
}

func (p *progress) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

func (p *progress) advance() {
	p.commits.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// rest waits for n commits, or for the last one.
func (p *progress) rest(n int) {
	for until := p.commits.Load() + int64(n); ; {
		changed := p.next()
		if p.commits.Load() >= until || p.last.Load() > 0 {
			return
		}
		<-changed
	}
}

// write commits changes of one or many keys, and compacts old ones.
func write(t *testing.T, f *fixture, rng *rand.Rand, commits int, reached *progress, witness *witness) {
	keys := []string{"a", "a/b", "ab", "d"}
	for i := range 8 {
		keys = append(keys, fmt.Sprint("a/b/", i), fmt.Sprint("c/", i))
	}
	colors := []string{"red", "green", "blue", ""}
	compacted := object.Revision(1)
	// On a busy machine, readers may need more changes than planned before one resumes in time.
	for i := 0; i < commits || !reached.replayed.Load() && i < 10*commits; i++ {
		n := 1
		if rng.IntN(4) == 0 {
			n = 1 + rng.IntN(len(keys))
		}
		var ops []object.Op
		for _, k := range rng.Perm(len(keys))[:n] {
			switch rng.IntN(8) {
			case 0, 1:
				ops = append(ops, remove(keys[k]))
			case 2: // a value without an envelope, which is opaque
				ops = append(ops, object.Op{Kind: object.OpPut, Key: object.Key(keys[k]), Value: make([]byte, rng.IntN(80))})
			default:
				ops = append(ops, f.put(keys[k], string(make([]byte, rng.IntN(80))), map[string]string{"color": colors[rng.IntN(len(colors))]}))
			}
		}
		at := f.commit(t, ops...)
		if compact := at - object.Revision(rng.IntN(30)); i%50 == 49 && compact > compacted {
			witness.await(compact)
			f.compact(t, compact)
			compacted = compact
		}
		reached.advance()
	}
	at := f.commit(t, f.put(lastKey, "", nil))
	reached.last.Store(int64(at))
	reached.advance()
}

// reader is a client that opens one watch after another.
type reader struct {
	*fixture
	rng      *rand.Rand
	reached  *progress
	interest feed.Interest
	options  dispatch.Options
	history  check.History
}

func (r *reader) run(t *testing.T) {
	for done := false; !done && !t.Failed(); {
		done = r.stream(t)
	}
}

// stream opens one watch and reads it for a while. It reports whether it has read the last
// revision.
func (r *reader) stream(t *testing.T) (done bool) {
	s := check.Stream{Begin: check.FromNothing}
	begin := catchup.FromSnapshot(0)
	last, resumable := r.history.Position()
	switch n := r.rng.IntN(10); {
	case resumable && n < 7:
		s.Begin, s.Position = check.After, last
		begin = catchup.FromPosition(last)
	case n == 7:
		s.Begin = check.FromNow
		begin = catchup.FromNow(object.Position{})
	}
	ctx, cancel := context.WithCancel(contextFor(t))
	defer cancel()
	inner, err := r.Watch(ctx, r.interest, begin, r.options)
	if err != nil {
		t.Error(err)
		return true
	}
	w := &watcher{Reader: inner, stream: s}
	defer w.Close()
	defer func() { r.history.Streams = append(r.history.Streams, w.stream) }()
	for left := 1 + r.rng.IntN(60); left > 0; left-- {
		if last := r.reached.last.Load(); last > 0 && int64(w.Position().Revision) >= last {
			return true
		}
		if _, err := w.receive(ctx); err != nil {
			if lost, ok := errors.AsType[*catchup.LostError](err); ok && abandoned(&w.stream) == 3 {
				t.Logf("%s reads too slowly for a snapshot: %v", r.history.Watcher, lost)
				return false
			}
			t.Error(err)
			return true
		}
		if first := w.stream.Messages[0]; first.Kind == object.CatchUpBegin && first.CatchUp == object.Replay {
			r.reached.replayed.Store(true)
		}
		switch r.rng.IntN(20) {
		case 0: // until the buffer is full
			r.reached.rest(r.rng.IntN(60))
		case 1: // until the position is compacted
			r.reached.rest(r.rng.IntN(200))
		}
	}
	return false
}

// abandoned counts the catch-ups that began after the last complete one.
func abandoned(s *check.Stream) int {
	n := 0
	for i := range s.Messages {
		switch s.Messages[i].Kind {
		case object.CatchUpBegin:
			n++
		case object.Synced:
			n = 0
		}
	}
	return n
}
