package direct_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// The last changes of these replays are outside the scope of the watcher. The replay ends
// only because the watcher asks the store for its position.

func TestReplayEndsAfterTheBufferWasFull(t *testing.T) {
	f := start(t, direct.Config{BufferBytes: 1})
	from := f.position(t)
	at := f.commit(t, f.put("a/1", "v", nil))
	now := f.commit(t, f.put("b/1", "v", nil))
	w := f.watch(t, feed.Interest{Scope: below(t, "a")}, catchup.FromPosition(from), dispatch.Options{})
	w.begins(t, object.Replay)
	if m := w.next(t, object.CatchUpPart); m.Position.Revision != at {
		t.Errorf("position of the change: got %d, want %d", m.Position.Revision, at)
	}
	if m := w.next(t, object.Synced); m.Position.Revision != now {
		t.Errorf("synced: got revision %d, want %d", m.Position.Revision, now)
	}
}

func TestReplayEndsThoughTheStoreWasAway(t *testing.T) {
	// The history of an embedded etcd would end the replay before.
	f, _ := startProcess(t, direct.Config{})
	store := &awayOnce{Store: f.store}
	f.Source = direct.New(direct.Config{
		Resource: "test", Store: store, Codec: f.codec, Preencode: wire.Preencode, Encoder: wire.Encoder{}, Log: slog.New(slog.DiscardHandler),
	})
	from := f.position(t)
	now := f.commit(t, f.put("b/1", "v", nil))
	w := f.watch(t, feed.Interest{Scope: below(t, "a")}, catchup.FromPosition(from), dispatch.Options{})
	w.begins(t, object.Replay)
	store.away.Store(true)
	if m := w.next(t, object.Synced); m.Position.Revision != now {
		t.Errorf("synced: got revision %d, want %d", m.Position.Revision, now)
	}
	if store.away.Load() {
		t.Error("the watcher did not ask for the position while the store was away")
	}
}

// awayOnce is a store that is unavailable for one request.
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
