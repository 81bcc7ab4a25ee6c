package cachertest

import (
	"context"
	"errors"
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// batch is how many revisions a watch of a Generator delivers at once: as many as
// an etcd that is read slower than it is written to.
const batch = 10_000

// Generator is a store that remembers nothing: a function says what each revision
// does. It exists for histories that are much longer than one wants to keep. A
// cacher is started on it while it is empty.
type Generator struct {
	records func(object.Revision) []object.Record

	mu      sync.Mutex
	now     object.Revision // guarded by mu
	changed chan struct{}   // guarded by mu; closed and replaced when now changes
}

// NewGenerator returns an empty store, at revision 1. What later revisions do is what
// records returns for them; it is asked once for each watch, in order.
func NewGenerator(records func(object.Revision) []object.Record) *Generator {
	return &Generator{records: records, now: 1, changed: make(chan struct{})}
}

// Advance brings the store to a revision.
func (g *Generator) Advance(to object.Revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = to
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *Generator) state() (object.Revision, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now, g.changed
}

// Epoch implements cacher.Store.
func (g *Generator) Epoch(context.Context) (object.Epoch, error) { return "generated", nil }

// Revision implements cacher.Store.
func (g *Generator) Revision(context.Context) (object.Revision, error) {
	now, _ := g.state()
	return now, nil
}

// Oldest implements cacher.Store.
func (g *Generator) Oldest(context.Context, object.Revision, object.Revision) (object.Revision, error) {
	return 1, nil
}

// List implements cacher.Store.
func (g *Generator) List(_ context.Context, at object.Revision, _ object.Key, _ int) ([]object.Record, bool, error) {
	if at > 1 {
		return nil, false, errors.New("only the empty state of a generator can be listed")
	}
	return nil, false, nil
}

// Watch implements cacher.Store.
func (g *Generator) Watch(_ context.Context, after object.Position) (object.Stream, error) {
	return &generated{g, after.Revision}, nil
}

type generated struct {
	*Generator
	at object.Revision // delivered up to here
}

func (s *generated) Next(ctx context.Context) (object.Update, error) {
	for {
		now, changed := s.state()
		if s.at < now {
			u := object.Update{Through: min(now, s.at+batch)}
			for s.at < u.Through {
				s.at++
				u.Records = append(u.Records, s.records(s.at)...)
			}
			return u, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return object.Update{}, ctx.Err()
		}
	}
}

func (s *generated) RequestProgress(context.Context) error { return nil }

func (s *generated) Close() {}
