package direct_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// A replay leads to the present, where the changes on the last part of the way do
// not concern the watcher, too: nothing but the question brings it there.

func TestReplayEndsAfterTheBufferWasFull(t *testing.T) {
	f := start(t, direct.Config{BufferBytes: 1})
	from := f.position(t)
	at := f.commit(t, f.put("a/1", "v", nil))
	now := f.commit(t, f.put("b/1", "v", nil))
	w := f.watch(t, dispatch.Interest{Scope: below(t, "a")}, direct.After(from), dispatch.Options{})
	w.begins(t, object.Replay)
	if m := w.next(t, object.CatchUpPart); m.Position.Revision != at {
		t.Errorf("the change is told at %d, want %d", m.Position.Revision, at)
	}
	if m := w.next(t, object.Synced); m.Position.Revision != now {
		t.Errorf("synced at %d, want %d", m.Position.Revision, now)
	}
}

func TestReplayEndsThoughTheStoreWasAway(t *testing.T) {
	var store *awayOnce
	f := startOver(t, direct.Config{}, func(s direct.Store) direct.Store {
		store = &awayOnce{Store: s}
		return store
	})
	from := f.position(t)
	now := f.commit(t, f.put("b/1", "v", nil))
	w := f.watch(t, dispatch.Interest{Scope: below(t, "a")}, direct.After(from), dispatch.Options{})
	w.begins(t, object.Replay)
	store.away.Store(true)
	if m := w.next(t, object.Synced); m.Position.Revision != now {
		t.Errorf("synced at %d, want %d", m.Position.Revision, now)
	}
	if store.away.Load() {
		t.Error("nobody asked the store while it was away")
	}
}

// awayOnce is a store that does not say where it is, once.
type awayOnce struct {
	direct.Store
	away atomic.Bool
}

func (s *awayOnce) Position(ctx context.Context) (object.Position, error) {
	if s.away.CompareAndSwap(true, false) {
		return object.Position{}, object.ErrUnavailable
	}
	return s.Store.Position(ctx)
}
