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
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// The position of a quiet watch keeps up with the store, so the client can resume after the
// store has compacted the revision of the last event.
func TestResumableAfterAQuietWatchIsEnded(t *testing.T) {
	f, store := startTapped(t, direct.Config{ProgressInterval: 10 * time.Millisecond})
	f.commit(t, f.put("quiet/k", "1", nil))
	interest := feed.Interest{Scope: below(t, "quiet")}
	w := f.watch(t, interest, catchup.FromSnapshot(0), dispatch.Options{EveryEvent: true})
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
		t.Fatalf("end of the watch: got %v, want %v", err, context.Canceled)
	}
	f.compact(t, last)
	w = f.watch(t, interest, catchup.FromPosition(w.Position()), dispatch.Options{EveryEvent: true})
	w.begins(t, object.Replay)
	w.next(t, object.Synced)
}

// A watch whose history is lost continues from the last revision that was read, even if the
// last changes were outside its scope.
func TestResumableFromWhereTheWatchWasReadTo(t *testing.T) {
	f, store := startTapped(t, direct.Config{ProgressInterval: 10 * time.Millisecond})
	w := f.watch(t, feed.Interest{Scope: below(t, "quiet")}, catchup.FromNow(object.Position{}), dispatch.Options{EveryEvent: true})
	w.next(t, object.Bookmark)
	store.mu.Lock()
	store.end = f.position(t).Revision + 1
	store.mu.Unlock()
	last := f.commit(t, f.put("busy/k", "1", nil))
	store.await(t, last)
	f.compact(t, last)
	w.begins(t, object.Replay)
	if m := w.next(t, object.Synced); m.Position.Revision != last {
		t.Errorf("synced: got %v, want revision %d", m.Position, last)
	}
}

// A watch that is silent although the store has newer revisions is opened again, even if the
// client wants no bookmarks.
func TestReliableAlthoughAWatchIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		codec, err := object.CodecByName("raw")
		if err != nil {
			t.Fatal(err)
		}
		store := &silentOnce{}
		store.revision.Store(1)
		s := direct.New(direct.Config{
			Resource: "test", Store: store, Codec: codec, Preencode: wire.Preencode, Encoder: wire.Encoder{}, Log: slog.New(slog.DiscardHandler),
		})
		inner, err := s.Watch(t.Context(), feed.Interest{}, catchup.FromNow(object.Position{}), dispatch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{Reader: inner}
		defer w.Close()
		w.next(t, object.Bookmark)
		store.revision.Store(2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if m, err := w.receive(ctx); err != nil || show(m) != "+k@2" {
			t.Errorf("got %s (%v), want +k@2", show(m), err)
		}
	})
}

// A watch that begins with a long replay may need many seconds for its first progress. Meanwhile,
// the watcher asks again and again whether the replay has ended. That is no reason to give the
// watch up: the next one would have to begin the same replay again.
func TestPatientWithAWatchThatBeginsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		codec, err := object.CodecByName("raw")
		if err != nil {
			t.Fatal(err)
		}
		store := &lateStore{}
		s := direct.New(direct.Config{
			Resource: "test", Store: store, Codec: codec, Preencode: wire.Preencode, Encoder: wire.Encoder{}, Log: slog.New(slog.DiscardHandler),
		})
		inner, err := s.Watch(t.Context(), feed.Interest{}, catchup.FromPosition(object.Position{Epoch: "e", Revision: 5}), dispatch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{Reader: inner}
		defer w.Close()
		w.begins(t, object.Replay)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if m, err := w.receive(ctx); err != nil || m.Kind != object.Synced {
			t.Errorf("got kind %v (%v), want %v", m.Kind, err, object.Synced)
		}
		if n := store.watches.Load(); n != 1 {
			t.Errorf("watches of the store: got %d, want 1", n)
		}
	})
}

// lateStore is a store whose watches take a while for their first progress. Nothing changes in it.
type lateStore struct {
	direct.Store
	watches atomic.Int64
}

const lateRevision = 1000

func (*lateStore) Position(context.Context) (object.Position, error) {
	return object.Position{Epoch: "e", Revision: lateRevision}, nil
}

func (*lateStore) List(context.Context, object.Revision, object.Scope, object.Key, int) ([]object.Record, bool, error) {
	return nil, false, nil
}

func (s *lateStore) Watch(context.Context, object.Scope, object.Position, bool) (object.Watch, error) {
	s.watches.Add(1)
	return &lateWatch{first: time.After(15 * time.Second)}, nil
}

type lateWatch struct {
	silentWatch
	first <-chan time.Time
}

func (s *lateWatch) Next(ctx context.Context) (object.Update, error) {
	select {
	case <-s.first:
		return object.Update{Through: lateRevision}, nil
	case <-ctx.Done():
		return object.Update{}, ctx.Err()
	}
}

// silentOnce is a store whose first watch delivers nothing.
type silentOnce struct {
	direct.Store
	revision atomic.Int64
	watches  atomic.Int64
}

func (s *silentOnce) Position(context.Context) (object.Position, error) {
	return object.Position{Epoch: "e", Revision: object.Revision(s.revision.Load())}, nil
}

func (s *silentOnce) Watch(_ context.Context, _ object.Scope, after object.Position, _ bool) (object.Watch, error) {
	stream := &silentWatch{}
	if s.watches.Add(1) > 1 {
		at := after.Revision + 1
		records := []object.Record{{Key: "k", CreateRevision: at, ModRevision: at, Version: 1}}
		stream.updates = []object.Update{{Records: records, Previous: make([]*object.Record, 1), Through: at}}
	}
	return stream, nil
}

// silentWatch delivers its updates, and then nothing more.
type silentWatch struct{ updates []object.Update }

func (s *silentWatch) Next(ctx context.Context) (object.Update, error) {
	if len(s.updates) == 0 {
		<-ctx.Done()
		return object.Update{}, ctx.Err()
	}
	u := s.updates[0]
	s.updates = s.updates[1:]
	return u, nil
}

func (*silentWatch) RequestProgress(context.Context) error { return nil }

func (*silentWatch) Close() {}
