package direct_test

import (
	"context"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/object"
)

// tap wraps the store of a source. It records how far the watches of the store have been
// read, and the sizes of pages.
type tap struct {
	direct.Store

	mu      sync.Mutex
	moved   chan struct{}   // guarded by mu; closed and replaced when through grows
	through object.Revision // guarded by mu: of the most advanced watch
	end     object.Revision // guarded by mu: watches fail with ErrCompacted there, once; 0: never
	pages   []int           // guarded by mu: size of the values of each page
}

// startTapped is start with a tap.
func startTapped(t testing.TB, cfg direct.Config) (*fixture, *tap) {
	t.Helper()
	tapped := &tap{moved: make(chan struct{})}
	return startWrapped(t, cfg, func(s direct.Store) direct.Store {
		tapped.Store = s
		return tapped
	}), tapped
}

func (s *tap) Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error) {
	stream, err := s.Store.Watch(ctx, scope, after, previous)
	return &tapWatch{Watch: stream, tap: s}, err
}

// tapWatch notes each update when the next one is asked for, because the watcher then has it.
type tapWatch struct {
	object.Watch
	tap  *tap
	last object.Revision // of the last update
}

func (s *tapWatch) Next(ctx context.Context) (object.Update, error) {
	if err := s.tap.note(s.last); err != nil {
		return object.Update{}, err
	}
	u, err := s.Watch.Next(ctx)
	s.last = u.Through
	return u, err
}

func (s *tap) note(through object.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if through > s.through {
		s.through = through
		close(s.moved)
		s.moved = make(chan struct{})
	}
	if s.end > 0 && through >= s.end {
		s.end = 0
		return object.ErrCompacted
	}
	return nil
}

func (s *tap) List(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) ([]object.Record, bool, error) {
	records, more, err := s.Store.List(ctx, at, scope, start, limit)
	size := 0
	for i := range records {
		size += len(records[i].Value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = append(s.pages, size)
	return records, more, err
}

// await waits until a watch has been read up to the revision r.
func (s *tap) await(t testing.TB, r object.Revision) {
	t.Helper()
	for ctx := contextFor(t); ; {
		s.mu.Lock()
		through, moved := s.through, s.moved
		s.mu.Unlock()
		if through >= r {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			t.Fatalf("revision read: got %d, want %d", through, r)
		}
	}
}
