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

func (s *tap) WatchScope(ctx context.Context, scope object.Scope, after object.Position, ask <-chan struct{},
	deliver func(u object.Update, previous []*object.Record) error,
) error {
	return s.Store.WatchScope(ctx, scope, after, ask, func(u object.Update, previous []*object.Record) error {
		if err := deliver(u, previous); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if u.Through > s.through {
			s.through = u.Through
			close(s.moved)
			s.moved = make(chan struct{})
		}
		if s.end > 0 && u.Through >= s.end {
			s.end = 0
			return object.ErrCompacted
		}
		return nil
	})
}

func (s *tap) CountScope(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) (int64, error) {
	return s.Store.CountScope(ctx, at, scope, start)
}

func (s *tap) ListScope(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) ([]object.Record, bool, error) {
	records, more, err := s.Store.ListScope(ctx, at, scope, start, limit)
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
