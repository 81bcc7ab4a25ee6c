package direct_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// A watch that nothing concerned is ended where the store is, about, and not where
// something last concerned it: whoever missed nothing can resume, though the store
// has forgotten what came in between.
func TestResumableAfterAQuietWatchIsEnded(t *testing.T) {
	f, store := startTapped(t, direct.Config{ProgressInterval: 10 * time.Millisecond})
	f.commit(t, f.put("quiet/k", "1", nil))
	interest := dispatch.Interest{Scope: below(t, "quiet")}
	w := f.watch(t, interest, direct.FromSnapshot(0), dispatch.Options{EveryEvent: true})
	w.begins(t, object.Reset)
	w.next(t, object.CatchUpPart)
	w.next(t, object.Synced)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := w.Next(ctx)
		ended <- err
	}()
	var last object.Revision
	for i := range 10 {
		last = f.commit(t, f.put("busy/k", fmt.Sprint(i), nil))
	}
	store.await(t, last)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the watch ends with %v", err)
	}
	f.compact(t, last)
	w = f.watch(t, interest, direct.After(w.Position()), dispatch.Options{EveryEvent: true})
	w.begins(t, object.Replay)
	w.next(t, object.Synced)
}

// A watch whose history is lost is continued from where it was read to, though
// nothing on the last part of the way was for the watcher.
func TestResumableFromWhereTheWatchWasReadTo(t *testing.T) {
	f, store := startTapped(t, direct.Config{ProgressInterval: 10 * time.Millisecond})
	w := f.watch(t, dispatch.Interest{Scope: below(t, "quiet")}, direct.FromNow(0), dispatch.Options{EveryEvent: true})
	w.next(t, object.Bookmark)
	store.mu.Lock()
	store.end = f.position(t).Revision + 1
	store.mu.Unlock()
	last := f.commit(t, f.put("busy/k", "1", nil))
	store.await(t, last)
	f.compact(t, last)
	w.begins(t, object.Replay)
	if m := w.next(t, object.Synced); m.Position.Revision != last {
		t.Errorf("synced at %v, want revision %d", m.Position, last)
	}
}

// A watch of the store that has gone deaf while the store moves on is opened again,
// though nobody asks for bookmarks.
func TestReliableThoughAWatchGoesDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		codec, err := object.CodecByName("raw")
		if err != nil {
			t.Fatal(err)
		}
		store := &deafOnce{}
		store.revision.Store(1)
		s := direct.New(direct.Config{
			Resource: "test", Store: store, Codec: codec, Preencode: wire.Preencode, Encoder: wire.Encoder{}, Log: slog.New(slog.DiscardHandler),
		})
		inner, err := s.Watch(t.Context(), dispatch.Interest{}, direct.FromNow(0), dispatch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{Watcher: inner}
		defer w.Close()
		w.next(t, object.Bookmark)
		store.revision.Store(2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if m, err := w.receive(ctx); err != nil || show(m) != "+k@2" {
			t.Errorf("got %s, %v", show(m), err)
		}
	})
}

// deafOnce is a store whose first watch says nothing.
type deafOnce struct {
	direct.Store
	revision atomic.Int64
	watches  atomic.Int64
}

func (s *deafOnce) Position(context.Context) (object.Position, error) {
	return object.Position{Epoch: "e", Revision: object.Revision(s.revision.Load())}, nil
}

func (s *deafOnce) WatchScope(ctx context.Context, _ object.Scope, after object.Position, ask <-chan struct{},
	deliver func(u object.Update, previous []*object.Record) error,
) error {
	if s.watches.Add(1) > 1 {
		at := after.Revision + 1
		u := object.Update{Records: []object.Record{{Key: "k", CreateRevision: at, ModRevision: at, Version: 1}}, Through: at}
		if err := deliver(u, make([]*object.Record, 1)); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ask:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
