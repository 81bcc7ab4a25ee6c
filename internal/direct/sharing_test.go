package direct_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Reads and watches that begin while a request is in flight share the next one.
func TestPositionRequestsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{answer: make(chan struct{})}
		s := direct.New(direct.Config{Resource: "test", Store: store, Log: slog.New(slog.DiscardHandler)})
		want := object.Position{Epoch: "e", Revision: 7}
		var callers sync.WaitGroup
		read := func() {
			if p, err := s.Position(t.Context(), 0); p != want || err != nil {
				t.Errorf("position: got %v (%v), want %v", p, err, want)
			}
		}
		callers.Go(read)
		synctest.Wait() // the first request is in flight
		for range 50 {
			callers.Go(read)
			callers.Go(func() {
				w, err := s.Watch(t.Context(), feed.Interest{}, catchup.FromNow(object.Position{Revision: 7}), dispatch.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				if p := w.Position(); p != want {
					t.Errorf("begin of the watch: got %v, want %v", p, want)
				}
				w.Close()
			})
		}
		synctest.Wait()
		close(store.answer)
		callers.Wait()
		if store.requests != 2 {
			t.Errorf("requests for 101 callers: got %d, want 2", store.requests)
		}
	})
}

// slowStore is a store that only has a position, and returns it when answer is closed.
type slowStore struct {
	direct.Store
	answer chan struct{}

	mu       sync.Mutex
	requests int // guarded by mu
}

func (s *slowStore) Position(ctx context.Context) (object.Position, error) {
	s.mu.Lock()
	s.requests++
	s.mu.Unlock()
	select {
	case <-s.answer:
		return object.Position{Epoch: "e", Revision: 7}, nil
	case <-ctx.Done():
		return object.Position{}, ctx.Err()
	}
}
