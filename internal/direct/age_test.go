package direct_test

import (
	"context"
	"log/slog"
	"slices"
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

// A message states an age unless the store has confirmed the position in the last second.
func TestMessagesStateTheirAge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	f := start(t, direct.Config{ProgressInterval: time.Hour})
	// Nothing confirms the position between the snapshot and the last bookmark.
	w := f.watch(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{LastBookmark: time.Now().Add(1500 * time.Millisecond)})
	for _, want := range []struct {
		kind object.MessageKind
		age  bool
	}{{object.CatchUpBegin, false}, {object.Synced, false}, {object.Bookmark, true}} {
		m, err := w.Next(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Kind != want.kind || (m.Header.Age > 0) != want.age {
			t.Errorf("got kind %d with an age of %v, want kind %d with an age: %v", m.Header.Kind, m.Header.Age, want.kind, want.age)
		}
	}
	// A bookmark after a silence waits until the store has confirmed the position.
	quiet := f.watch(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{BookmarkInterval: 1500 * time.Millisecond})
	quiet.begins(t, object.Reset)
	quiet.next(t, object.Synced)
	if m, err := quiet.Next(contextFor(t)); err != nil || m.Header.Kind != object.Bookmark || m.Header.Age > 0 {
		t.Errorf("got kind %d with an age of %v and %v, want a bookmark without an age", m.Header.Kind, m.Header.Age, err)
	}
}

// The first change that comes after a silence of the store may be an old one.
func TestAChangeAfterASilenceStatesItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := watchPausing(t, 0, dispatch.Options{})
		defer w.Close()
		next := func(at object.Revision) time.Duration {
			t.Helper()
			store.changes <- object.Record{Key: "k", CreateRevision: at, ModRevision: at, Version: 1}
			m, err := w.Next(t.Context())
			if err != nil || m.Header.Kind != object.Live {
				t.Fatalf("got kind %d and %v, want a live message", m.Header.Kind, err)
			}
			return m.Header.Age
		}
		time.Sleep(time.Minute)
		if age := next(2); age > 0 {
			t.Errorf("got an age of %v while the store answers, want none", age)
		}
		store.away.Store(true)
		time.Sleep(time.Minute)
		if age := next(3); age < 50*time.Second {
			t.Errorf("got an age of %v after a silence of a minute, want about as much", age)
		}
		store.away.Store(false)
		time.Sleep(time.Minute)
		if age := next(4); age > 0 {
			t.Errorf("got an age of %v after the store is back, want none", age)
		}
	})
}

// A client that reads slowly gets changes that were everything some time ago.
func TestMessagesToASlowClientStateTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := watchPausing(t, 1, dispatch.Options{}) // each change has a message of its own
		defer w.Close()
		for at := range object.Revision(3) {
			store.changes <- object.Record{Key: "k", CreateRevision: at + 2, ModRevision: at + 2, Version: 1}
		}
		time.Sleep(time.Minute)
		var old []bool
		for range 3 {
			m, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			old = append(old, m.Header.Age >= 50*time.Second)
		}
		if want := []bool{true, true, false}; !slices.Equal(old, want) {
			t.Errorf("messages with an age of a minute: got %v, want %v", old, want)
		}
	})
}

// Soon after the store is back, a client gets the bookmark that it has not got meanwhile.
func TestBookmarkSoonAfterTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, soon = 20 * time.Second, 2 * time.Second
		store, w := watchPausing(t, 0, dispatch.Options{BookmarkInterval: interval})
		defer w.Close()
		store.away.Store(true)
		silence, cancel := context.WithTimeout(t.Context(), 2*interval+interval/3)
		defer cancel()
		if m, err := w.Next(silence); err == nil {
			t.Fatalf("got a message of kind %d while the store is away", m.Header.Kind)
		}
		store.away.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if m, err := w.Next(ctx); err != nil || m.Header.Kind != object.Bookmark || m.Header.Age > 0 {
			t.Errorf("after the store is back: got kind %d with an age of %v and %v, want a bookmark", m.Header.Kind, m.Header.Age, err)
		}
	})
}

// The store may be away for so long that its watch breaks. The next watch has the bookmark soon, too.
func TestBookmarkSoonAfterAnotherWatchOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, soon = time.Minute, 5 * time.Second
		store, w := watchPausing(t, 0, dispatch.Options{BookmarkInterval: interval})
		defer w.Close()
		store.away.Store(true)
		silence, cancel := context.WithTimeout(t.Context(), interval+interval/3)
		defer cancel()
		if m, err := w.Next(silence); err == nil {
			t.Fatalf("got a message of kind %d while the store is away", m.Header.Kind)
		}
		store.broken <- struct{}{}
		synctest.Wait()
		store.away.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if m, err := w.Next(ctx); err != nil || m.Header.Kind != object.Bookmark || m.Header.Age > 0 {
			t.Errorf("after the store is back: got kind %d with an age of %v and %v, want a bookmark", m.Header.Kind, m.Header.Age, err)
		}
	})
}

// watchPausing begins to watch a store that can be away. The messages have a size limit; 0: the
// default.
func watchPausing(t *testing.T, messageBytes int, o dispatch.Options) (*pausingStore, *direct.Reader) {
	t.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	store := &pausingStore{changes: make(chan object.Record), broken: make(chan struct{})}
	source := direct.New(direct.Config{
		Resource: "test", Store: store, Codec: codec, Preencode: wire.Preencode, Encoder: wire.Encoder{}, Log: slog.New(slog.DiscardHandler),
		MessageBytes: messageBytes,
	})
	w, err := source.Watch(t.Context(), feed.Interest{}, catchup.FromNow(object.Position{}), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store, w
}

// pausingStore is a store that can be away: it then answers nothing, but delivers changes that
// were on their way.
type pausingStore struct {
	direct.Store
	away    atomic.Bool
	changes chan object.Record
	broken  chan struct{} // ends a watch
	now     atomic.Int64
}

func (s *pausingStore) Position(context.Context) (object.Position, error) {
	if s.away.Load() {
		return object.Position{}, object.ErrUnavailable
	}
	return object.Position{Epoch: "e", Revision: object.Revision(max(1, s.now.Load()))}, nil
}

func (s *pausingStore) Watch(context.Context, object.Scope, object.Position, bool) (object.Watch, error) {
	return pausingWatch{s}, nil
}

type pausingWatch struct{ *pausingStore }

func (s pausingWatch) Next(ctx context.Context) (object.Update, error) {
	select {
	case r := <-s.changes:
		s.now.Store(int64(r.ModRevision))
		return object.Update{Records: []object.Record{r}, Previous: make([]*object.Record, 1), Through: r.ModRevision}, nil
	case <-s.broken:
		return object.Update{}, object.ErrUnavailable
	case <-ctx.Done():
		return object.Update{}, ctx.Err()
	}
}

func (pausingWatch) RequestProgress(context.Context) error { return nil }

func (pausingWatch) Close() {}
