package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// slowSource calls a function each time after it has read a state, so that the state is
// old when the caller gets it.
type slowSource struct {
	*cacher.Cacher
	meanwhile func() // called by the next call of State, once
}

func (s *slowSource) State() *cacher.State {
	state := s.Cacher.State()
	if f := s.meanwhile; f != nil {
		s.meanwhile = nil
		f()
	}
	return state
}

// startSlow starts a dispatcher of a source that can be slow.
func startSlow(t *testing.T, change ...func(*feed.Config)) (*cachertest.Memory, *slowSource, *dispatch.Dispatcher, *sendqueue.Queue) {
	t.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	store := cachertest.NewMemory()
	source := &slowSource{Cacher: cacher.New(cacher.Config{
		Resource: "test", Store: store, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler),
	})}
	cfg := feed.Config{Source: source, Encoder: wire.Encoder{}}
	for _, f := range change {
		f(&cfg)
	}
	d := dispatch.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { source.Run(ctx) })
	running.Go(func() { d.Run(ctx) })
	workers := sendqueue.Start(1)
	t.Cleanup(func() { cancel(); running.Wait(); workers.Stop() })
	synctest.Wait()
	return store, source, d, workers.NewQueue()
}

// If a relist happens while a watcher of every event reads, the watcher gets a LostError and not
// the difference.
func TestHonestDuringARelist(t *testing.T) {
	large := strings.Repeat("v", 2<<10) // each event fills a segment of the log
	for name, window := range map[string]bool{"from the feed": false, "from the window": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, source, d, q := startSlow(t, func(cfg *feed.Config) {
					if window {
						cfg.LogBytes = 1
					}
				})
				store.Put("k", large)
				synctest.Wait()

				at := source.State().Position()
				w := d.Pull(q, feed.Interest{}, catchup.FromNow(at), dispatch.Options{EveryEvent: true})
				defer w.Close()
				if _, err := w.Next(t.Context()); err != nil { // the bookmark
					t.Fatal(err)
				}
				store.Put("k", large)
				store.Put("l", large)
				synctest.Wait()
				source.meanwhile = func() {
					store.Change(func() { store.Quiet = true })
					store.Put("k", large)
					store.Put("k", large)
					last := store.Put("m", large)
					store.Change(func() { store.Quiet, store.Compacted = false, last })
					synctest.Wait()
				}
				if !window {
					source.State() // the relist happens before the watcher reads
				}
				waiting, done := context.WithTimeout(t.Context(), time.Second)
				defer done()
				m, err := w.Next(waiting)
				var lost *catchup.LostError
				if !errors.As(err, &lost) || lost.Asked != at.Revision {
					t.Errorf("got %d events and error %v, want a LostError for revision %d", len(decode(t, m).Events), err, at.Revision)
				}
			})
		})
	}
}

// A replay leads to the cacher's present state, even if the dispatcher has not appended it to the
// feeds yet.
func TestReplayDoesNotWaitForTheDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, source, d, q := startSlow(t)
		store.Put("k", "1")
		synctest.Wait()
		other := d.Pull(q, feed.Interest{}, catchup.FromNow(source.State().Position()), dispatch.Options{})
		defer other.Close() // keeps the feed
		called := false
		source.meanwhile = func() { // the dispatcher has read the state
			called = true
			w := d.Pull(q, feed.Interest{}, catchup.FromPosition(object.Position{Epoch: "e1", Revision: 2}), dispatch.Options{})
			defer w.Close()
			for {
				m, err := w.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if m.Header.Kind == object.Synced {
					if got, want := m.Header.Position, source.State().Position(); got != want {
						t.Errorf("replayed to %v, want %v", got, want)
					}
					return
				}
			}
		}
		store.Put("k", "2")
		synctest.Wait()
		if !called {
			t.Error("the dispatcher has not read the state")
		}
	})
}

// A watch from an exact revision does not wait for that revision in another epoch.
func TestExactRevisionOfAnotherEpochIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		for range 10 {
			f.store.Put("k", "1")
		}
		synctest.Wait()
		w := f.watch(t, object.Scope{}, catchup.FromExactly(f.store.Now()))
		f.store.Change(func() { f.store.Down = object.ErrUnavailable })
		synctest.Wait()
		f.store.Restart("e2")
		f.store.Put("k", "2")
		f.store.Change(func() { f.store.Down = nil })
		time.Sleep(time.Minute)
		m, err := w.receive(t)
		var lost *catchup.LostError
		if !errors.As(err, &lost) {
			t.Fatalf("got %+v, %v; want a LostError", m, err)
		}
		if now := f.cacher.State(); lost.Asked <= now.Revision() || lost.Current != now.Revision() {
			t.Errorf("got %+v, want a revision after the present one, %d", lost, now.Revision())
		}
	})
}

// A replay in one epoch does not use parts of a replay from the same revision of another.
func TestReplaysOfTwoEpochsAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		for range 10 {
			f.store.Put("k", "of the first epoch")
		}
		synctest.Wait()
		first := f.watch(t, object.Scope{}, catchup.FromPosition(object.Position{Epoch: "e1", Revision: 5}))
		first.next(t, object.CatchUpBegin)
		f.store.Change(func() { f.store.Down = object.ErrUnavailable })
		synctest.Wait()
		f.store.Restart("e2")
		for range 10 {
			f.store.Put("k", "of the second")
		}
		f.store.Change(func() { f.store.Down = nil })
		time.Sleep(time.Minute)
		second := f.watch(t, object.Scope{}, catchup.FromPosition(object.Position{Epoch: "e2", Revision: 5}))
		if events := second.sync(t, object.Replay); len(events) != 6 {
			t.Errorf("got %d replayed events, want 6", len(events))
		}
		if got := show(first.sync(t, object.Reset)); got != "+k=of the second" {
			t.Errorf("got %q", got)
		}
	})
}

// A RESET to a revision and a DELTA from that revision may lead to the same state, but do
// not share parts.
func TestResetAndDeltaAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 10})
		for i := range 40 {
			f.store.Put(object.Key(fmt.Sprint("k/", i%2)), "v")
		}
		synctest.Wait()
		oldest := f.cacher.State().Replayable()
		reset := f.watch(t, prefix(t, "k"), catchup.FromExactly(oldest))
		if got := show(reset.sync(t, object.Reset)); got != "+k/0=v +k/1=v" {
			t.Errorf("got state %q", got)
		}
		f.store.Put("other", "w") // moves the window past the oldest revision
		synctest.Wait()
		delta := f.watch(t, prefix(t, "k"), catchup.FromPosition(object.Position{Epoch: "e1", Revision: oldest}))
		if got := show(delta.sync(t, object.Delta)); got != "~k/0=v ~k/1=v" {
			t.Errorf("got difference %q", got)
		}
		f.store.Put("k/1", "w")
		if got := show(delta.next(t, object.Live).Events); got != "~k/1=w" {
			t.Errorf("got %q", got)
		}
	})
}

// With LATEST, changes that happen while a large revision is sent in parts are merged, too.
func TestLatestMergesAfterARevisionInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{messageBytes: 200})
		synctest.Wait() // the feed begins at the position of the watcher
		w := f.watchWith(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{Latest: true})
		w.sync(t, object.Reset)
		large := f.store.Commit(writes(11, 30)) // its last part has room for more events
		synctest.Wait()
		part := w.next(t, object.Live)
		if !part.Partial {
			t.Fatal("the revision is not sent in parts")
		}
		for _, value := range []string{"1", "2", "3"} {
			f.store.Put("k0", value)
			f.store.Put("k9", value)
		}
		synctest.Wait()
		events := part.Events
		for part.Partial {
			part = w.next(t, object.Live)
			events = append(events, part.Events...)
		}
		if len(events) != 11 || part.Position.Revision != large {
			t.Errorf("got %q up to %v, want 11 events up to %d", show(events), part.Position, large)
		}
		if got := show(w.next(t, object.Live).Events); got != "~k0=3 ~k9=3" {
			t.Errorf("got merged events %q", got)
		}
	})
}

// A DELTA to an older state does not use parts of a DELTA to a newer one.
func TestDeltasToTwoStatesAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 5, messageBytes: 10}) // one event in each part
		write := func() {
			for range 10 {
				f.store.Put("k", "v")
				f.store.Put("l", "v")
			}
			synctest.Wait()
		}
		write()
		from := catchup.FromPosition(object.Position{Epoch: "e1", Revision: 3})
		first := f.watch(t, object.Scope{}, from)
		first.next(t, object.CatchUpBegin)
		to := f.store.Now()
		write()
		time.Sleep(time.Second)
		second := f.watch(t, object.Scope{}, from)
		second.sync(t, object.Delta)
		for range 2 {
			for _, e := range first.next(t, object.CatchUpPart).Events {
				if e.Revision > to {
					t.Errorf("got %q at revision %d in a DELTA to %d", e.Object.Key, e.Revision, to)
				}
			}
		}
		if m := first.next(t, object.Synced); m.Position.Revision != to {
			t.Errorf("synced at %v, want %d", m.Position, to)
		}
	})
}
