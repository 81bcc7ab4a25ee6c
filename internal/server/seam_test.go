package server_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// underneath is the store that a seam wraps.
type underneath interface {
	cacher.Store
	backend.Store
}

// seam wraps the store of a resource. It counts the calls of each method, and a test can
// fail or delay them. It does not count what a cacher does at times of its own: it takes the updates
// of its watch, and asks for the revision whenever etcd is silent for some seconds.
type seam struct {
	underneath

	mu        sync.Mutex
	calls     map[string]int // guarded by mu
	interfere func(ctx context.Context, method string) error
}

// ofCacher is the key of a value in the context of the goroutines of cachers.
type ofCacher struct{}

func newSeam(store underneath) *seam {
	return &seam{underneath: store, calls: map[string]int{}}
}

// on makes the seam call f before each call of the store. f may return an error, block or
// panic; a nil f has no effect. For a watch, the seam calls f with the method "Next" after
// the stream has received an update and before the caller gets it.
func (s *seam) on(f func(ctx context.Context, method string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interfere = f
}

// counted returns the number of calls so far, by method.
func (s *seam) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

func (s *seam) call(ctx context.Context, method string) error {
	s.mu.Lock()
	if ctx.Value(ofCacher{}) == nil || method != "Next" && method != "Revision" {
		s.calls[method]++
	}
	f := s.interfere
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, method)
}

func (s *seam) Commit(ctx context.Context, ops []object.Op) (object.Commit, error) {
	if err := s.call(ctx, "Commit"); err != nil {
		return object.Commit{}, err
	}
	return s.underneath.Commit(ctx, ops)
}

func (s *seam) Epoch(ctx context.Context) (object.Epoch, error) {
	if err := s.call(ctx, "Epoch"); err != nil {
		return "", err
	}
	return s.underneath.Epoch(ctx)
}

func (s *seam) Revision(ctx context.Context) (object.Revision, error) {
	if err := s.call(ctx, "Revision"); err != nil {
		return 0, err
	}
	return s.underneath.Revision(ctx)
}

func (s *seam) Oldest(ctx context.Context, floor, ceiling object.Revision) (object.Revision, error) {
	if err := s.call(ctx, "Oldest"); err != nil {
		return 0, err
	}
	return s.underneath.Oldest(ctx, floor, ceiling)
}

func (s *seam) List(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) ([]object.Record, bool, error) {
	if err := s.call(ctx, "List"); err != nil {
		return nil, false, err
	}
	return s.underneath.List(ctx, at, scope, start, limit)
}

func (s *seam) Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error) {
	if err := s.call(ctx, "Watch"); err != nil {
		return nil, err
	}
	stream, err := s.underneath.Watch(ctx, scope, after, previous)
	return &seamWatch{stream, s}, err
}

type seamWatch struct {
	object.Watch
	seam *seam
}

func (s *seamWatch) Next(ctx context.Context) (object.Update, error) {
	u, err := s.Watch.Next(ctx)
	if err != nil {
		return u, err
	}
	return u, s.seam.call(ctx, "Next")
}

// gate blocks the calls of some methods until it is opened.
type gate struct {
	methods map[string]bool
	reached chan string // the methods of blocked calls; further ones are dropped when it is full
	opened  chan struct{}
	open    func()
}

func newGate(methods ...string) *gate {
	g := &gate{methods: map[string]bool{}, reached: make(chan string, 100), opened: make(chan struct{})}
	for _, m := range methods {
		g.methods[m] = true
	}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	return g
}

// await waits until the gate has blocked a call.
func (g *gate) await(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-g.reached:
	case <-ctx.Done():
		t.Fatalf("the store was not called: want a call of one of %v", slices.Collect(maps.Keys(g.methods)))
	}
}

func (g *gate) pass(ctx context.Context, method string) error {
	if !g.methods[method] {
		return nil
	}
	select {
	case g.reached <- method:
	default:
	}
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
