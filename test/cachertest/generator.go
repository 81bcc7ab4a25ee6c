package cachertest

import (
	"context"
	"errors"
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// batch is the number of revisions that a watch of a Generator delivers at once, like an etcd
// that is read more slowly than it is written to.
const batch = 10_000

// Generator is a store without memory: a function returns the changes of each revision. It is
// for histories that are too long to keep. Start the cacher while the store is empty.
type Generator struct {
	records func(object.Revision) []object.Record

	mu      sync.Mutex
	now     object.Revision // guarded by mu
	changed chan struct{}   // guarded by mu; closed and replaced when now changes
}

// NewGenerator returns an empty store at revision 1. Each watch calls records once per later
// revision, in order, for its changes.
func NewGenerator(records func(object.Revision) []object.Record) *Generator {
	return &Generator{records: records, now: 1, changed: make(chan struct{})}
}

// Advance moves the store to a revision.
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
func (g *Generator) List(_ context.Context, at object.Revision, _ object.Scope, _ object.Key, _ int) ([]object.Record, bool, error) {
	if at > 1 {
		return nil, false, errors.New("only the empty state of a generator can be listed")
	}
	return nil, false, nil
}

// Watch implements cacher.Store.
func (g *Generator) Watch(_ context.Context, _ object.Scope, after object.Position, _ bool) (object.Watch, error) {
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
