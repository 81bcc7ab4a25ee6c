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

// underneath is what a resource stands on.
type underneath interface {
	cacher.Store
	backend.Writer
}

// seam lies between a resource and its store. It counts the calls by method and
// lets a test interfere with them.
type seam struct {
	store underneath

	mu        sync.Mutex
	calls     map[string]int // guarded by mu
	interfere func(ctx context.Context, method string) error
}

func newSeam(store underneath) *seam {
	return &seam{store: store, calls: map[string]int{}}
}

// on makes every call go through f first. It may fail the call, hold it or panic;
// nil lets everything pass. What a stream has received goes through it as "Next"
// before it is handed on.
func (s *seam) on(f func(ctx context.Context, method string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interfere = f
}

// counted returns the number of calls so far.
func (s *seam) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

func (s *seam) call(ctx context.Context, method string) error {
	s.mu.Lock()
	s.calls[method]++
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
	return s.store.Commit(ctx, ops)
}

func (s *seam) Epoch(ctx context.Context) (object.Epoch, error) {
	if err := s.call(ctx, "Epoch"); err != nil {
		return "", err
	}
	return s.store.Epoch(ctx)
}

func (s *seam) Revision(ctx context.Context) (object.Revision, error) {
	if err := s.call(ctx, "Revision"); err != nil {
		return 0, err
	}
	return s.store.Revision(ctx)
}

func (s *seam) Oldest(ctx context.Context, floor, ceiling object.Revision) (object.Revision, error) {
	if err := s.call(ctx, "Oldest"); err != nil {
		return 0, err
	}
	return s.store.Oldest(ctx, floor, ceiling)
}

func (s *seam) List(ctx context.Context, at object.Revision, start object.Key, limit int) ([]object.Record, bool, error) {
	if err := s.call(ctx, "List"); err != nil {
		return nil, false, err
	}
	return s.store.List(ctx, at, start, limit)
}

func (s *seam) Watch(ctx context.Context, after object.Position) (object.Stream, error) {
	if err := s.call(ctx, "Watch"); err != nil {
		return nil, err
	}
	stream, err := s.store.Watch(ctx, after)
	return &seamStream{stream, s}, err
}

type seamStream struct {
	object.Stream
	seam *seam
}

func (s *seamStream) Next(ctx context.Context) (object.Update, error) {
	u, err := s.Stream.Next(ctx)
	if err != nil {
		return u, err
	}
	return u, s.seam.call(ctx, "Next")
}

// gate holds the calls of some methods until it is opened.
type gate struct {
	methods map[string]bool
	reached chan string // the method of each call that has come to the gate, as far as there is room
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

// await returns when a call has come to the gate.
func (g *gate) await(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-g.reached:
	case <-ctx.Done():
		t.Fatalf("there was no call of %v", slices.Collect(maps.Keys(g.methods)))
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
