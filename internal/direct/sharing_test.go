package direct_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Reads and watches that come while a question is under way share the next one.
func TestQuestionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{answer: make(chan struct{})}
		s := direct.New(direct.Config{Resource: "test", Store: store, Log: slog.New(slog.DiscardHandler)})
		want := object.Position{Epoch: "e", Revision: 7}
		var asking sync.WaitGroup
		read := func() {
			if p, err := s.Position(t.Context(), 0); p != want || err != nil {
				t.Errorf("the position is %v, %v", p, err)
			}
		}
		asking.Go(read)
		synctest.Wait() // the first question is under way
		for range 50 {
			asking.Go(read)
			asking.Go(func() {
				w, err := s.Watch(t.Context(), dispatch.Interest{}, direct.FromNow(7), dispatch.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				if p := w.Position(); p != want {
					t.Errorf("the watch begins at %v", p)
				}
				w.Close()
			})
		}
		synctest.Wait()
		close(store.answer)
		asking.Wait()
		if store.asked != 2 {
			t.Errorf("the store was asked %d times for 101 callers, want 2", store.asked)
		}
	})
}

// slowStore is a store that only says where it is, and that when it may.
type slowStore struct {
	direct.Store
	answer chan struct{}

	mu    sync.Mutex
	asked int // guarded by mu
}

func (s *slowStore) Position(ctx context.Context) (object.Position, error) {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	select {
	case <-s.answer:
		return object.Position{Epoch: "e", Revision: 7}, nil
	case <-ctx.Done():
		return object.Position{}, ctx.Err()
	}
}
