package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

func TestSnapshotThenLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		f.store.Put("b", "1")
		f.store.Put("a/x", "1")
		f.store.Put("ab", "1")
		synctest.Wait()

		whole := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		below := f.watch(t, prefix(t, "a"), catchup.FromSnapshot(0))
		exact := f.watch(t, object.ExactKey("a/x"), catchup.FromSnapshot(0))
		absent := f.watch(t, object.ExactKey("a"), catchup.FromSnapshot(0))
		for w, want := range map[*watcher]string{
			whole: "+a/x=1 +ab=1 +b=1", below: "+a/x=1", exact: "+a/x=1", absent: "",
		} {
			if got := show(w.sync(t, object.Reset)); got != want {
				t.Errorf("got snapshot %q, want %q", got, want)
			}
			if got := w.Position().Revision; got != f.store.Now() {
				t.Errorf("got position %d, want %d", got, f.store.Now())
			}
		}

		at := f.store.Put("a/x", "2")
		for _, w := range []*watcher{whole, below, exact} {
			m := w.next(t, object.Live)
			if got := show(m.Events); got != "~a/x=2" || m.Position.Revision != at {
				t.Errorf("got %q at %v", got, m.Position)
			}
		}
		absent.quiet(t)
		f.store.Commit(map[object.Key][]byte{"a/x": nil, "a/y": []byte("1"), "ab": nil})
		if got := show(below.next(t, object.Live).Events); got != "-a/x +a/y=1" {
			t.Errorf("got %q", got)
		}
		if got := show(exact.next(t, object.Live).Events); got != "-a/x" {
			t.Errorf("got %q", got)
		}
	})
}

func TestBookmarkableFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		now := f.store.Put("a", "1")
		synctest.Wait()
		w := f.watch(t, object.Scope{}, catchup.FromNow(f.cacher.State().Position()))
		if m := w.next(t, object.Bookmark); m.Position.Revision != now || len(m.Events) > 0 {
			t.Errorf("got %+v, want a bookmark at revision %d", m, now)
		}
		w.quiet(t)
		f.store.Put("a", "2")
		if got := show(w.next(t, object.Live).Events); got != "~a=2" {
			t.Errorf("got %q", got)
		}
	})
}

func TestResumableInsideTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		var revisions []object.Revision
		for i := range 5 {
			revisions = append(revisions, f.store.Put("a", fmt.Sprint(i)))
		}
		synctest.Wait()
		epoch := f.cacher.State().Position().Epoch
		for i, r := range revisions {
			w := f.watch(t, object.Scope{}, catchup.FromPosition(object.Position{Epoch: epoch, Revision: r}))
			events := w.sync(t, object.Replay)
			if len(events) != len(revisions)-i-1 || i < 4 && string(events[0].Object.Value) != fmt.Sprint(i+1) {
				t.Errorf("after revision %d: got %s", r, show(events))
			}
			if w.Position().Revision != revisions[4] {
				t.Errorf("after revision %d: got position %v, want %d", r, w.Position(), revisions[4])
			}
		}
	})
}

// A watch that received nothing for a long time has not fallen behind. It ends at the present
// position, and resumes there.
func TestResumableAfterManyUnrelatedWrites(t *testing.T) {
	for name, options := range map[string]dispatch.Options{"every event": {EveryEvent: true}, "latest": {Latest: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{window: 10})
				f.store.Put("quiet/k", "1")
				synctest.Wait()
				quiet := feed.Interest{Scope: prefix(t, "quiet")}
				w := f.watchWith(t, quiet, catchup.FromSnapshot(0), options)
				w.sync(t, object.Reset)
				ctx, end := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() {
					_, err := w.Next(ctx)
					ended <- err
				}()
				for i := range 100 {
					f.store.Put("busy/k", fmt.Sprint(i))
					synctest.Wait()
				}
				end()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				now := f.cacher.State().Position()
				if got := w.Position(); got != now {
					t.Errorf("without events: got position %v, want %v", got, now)
				}

				// A pending event is after the position.
				f.store.Put("quiet/k", "2")
				f.store.Put("busy/k", "last")
				synctest.Wait()
				if got := w.Position(); got != now {
					t.Errorf("with a pending event: got position %v, want %v", got, now)
				}
				again := f.watchWith(t, quiet, catchup.FromPosition(now), options)
				if got := show(again.sync(t, object.Replay)); got != "~quiet/k=2" {
					t.Errorf("got replay %q", got)
				}
			})
		})
	}
}

func TestResetWhereAPositionCannotBeResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 3, tombstones: 1})
		first := f.store.Put("a", "0")
		for i := range 100 {
			f.store.Put("a", fmt.Sprint(i))
		}
		for range 2 {
			f.store.Put("gone", "")
			f.store.Commit(map[object.Key][]byte{"gone": nil, "too": []byte("")})
			f.store.Commit(map[object.Key][]byte{"too": nil})
		}
		synctest.Wait()
		now := f.cacher.State().Position()
		for name, p := range map[string]object.Position{
			"before the oldest tombstone": {Epoch: now.Epoch, Revision: first},
			"of another epoch":            {Epoch: "other", Revision: now.Revision},
			"from nothing":                {Epoch: now.Epoch},
		} {
			w := f.watch(t, object.Scope{}, catchup.FromPosition(p))
			if got := show(w.sync(t, object.Reset)); got != "+a=99" {
				t.Errorf("%s: got %q", name, got)
			}
		}
	})
}

// All watchers of an interest share one encoding of an event, and get the same bytes.
func TestAThousandWatchersCostOneEncoding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		synctest.Wait() // the log begins with the first state
		watchers := make([]*watcher, 1000)
		for i := range watchers {
			watchers[i] = f.watch(t, prefix(t, "a"), catchup.FromSnapshot(0))
			watchers[i].sync(t, object.Reset)
		}
		f.encoder.events.Store(0)
		const events = 10
		for i := range events {
			f.store.Put("a/x", fmt.Sprint(i))
			f.store.Put("b/x", fmt.Sprint(i)) // concerns no watcher
			synctest.Wait()
			var shared *byte
			for _, w := range watchers {
				m, err := w.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(m.Events) != 1 {
					t.Fatalf("got %d pieces, want 1", len(m.Events))
				}
				if shared == nil {
					shared = &m.Events[0][0]
				}
				if shared != &m.Events[0][0] {
					t.Fatal("watchers of one interest get different bytes")
				}
			}
		}
		if n := f.encoder.events.Load(); n != events {
			t.Errorf("got %d encodings of %d events", n, events)
		}
		if n := f.dispatcher.Interests(); n != 1 {
			t.Errorf("got %d interests, want 1", n)
		}
	})
}

func TestSnapshotIsNotEncodedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		for i := range 100 {
			f.store.Put(object.Key(fmt.Sprintf("k/%03d", i)), "v")
		}
		synctest.Wait()
		for range 10 {
			w := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
			if events := w.sync(t, object.Reset); len(events) != 100 {
				t.Errorf("got %d objects, want 100", len(events))
			}
		}
		if n := f.encoder.events.Load(); n != 0 {
			t.Errorf("got %d encodings of objects for snapshots, want none", n)
		}
	})
}

// Events that wait for a watcher come in one message.
func TestWaitingEventsComeInOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		w := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		w.sync(t, object.Reset)
		var last object.Revision
		for i := range 100 {
			last = f.store.Put("a", fmt.Sprint(i))
		}
		synctest.Wait()
		if m := w.next(t, object.Live); len(m.Events) != 100 || m.Position.Revision != last {
			t.Errorf("got %d events up to %v, want 100 up to %d", len(m.Events), m.Position, last)
		}
		w.quiet(t)
	})
}

// Only a revision that is larger than a message is split, and no position points inside of it.
func TestAtomic(t *testing.T) {
	for name, late := range map[string]bool{"from the feed": false, "from the window": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{messageBytes: 400})
				now := f.cacher.State().Position()
				var w *watcher
				if !late {
					w = f.watch(t, object.Scope{}, catchup.FromPosition(now))
				}
				for range 5 {
					f.store.Commit(writes(3, 1))
				}
				large := f.store.Commit(writes(40, 30))
				last := f.store.Commit(writes(3, 1))
				synctest.Wait()
				if late {
					w = f.watch(t, object.Scope{}, catchup.FromPosition(now))
				}
				w.next(t, object.CatchUpBegin)
				parts := map[object.Revision]int{}
				for w.Position().Revision < last {
					m, err := w.receive(t)
					if err != nil {
						t.Fatal(err)
					}
					if m.Partial {
						parts[m.Events[len(m.Events)-1].Revision]++
					}
				}
				if len(parts) != 1 || parts[large] < 3 {
					t.Errorf("got parts of the revisions %v, want several of %d only", parts, large)
				}
				w.stream.Begin, w.stream.Position = check.After, now
				history := &check.History{Watcher: name, Streams: []check.Stream{w.stream}}
				if err := check.Validate(history, f.truth(t)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// writes returns n puts with values of this size.
func writes(n, size int) map[object.Key][]byte {
	puts := map[object.Key][]byte{}
	for i := range n {
		puts[object.Key(fmt.Sprint("k", i))] = bytes.Repeat([]byte("v"), size)
	}
	return puts
}

// A watcher reads events from the window if the log of the feed has dropped them.
func TestIsolatedReaderBehindTheFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 10_000, logBytes: 2 << 10, messageBytes: 1 << 10})
		slow := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		slow.sync(t, object.Reset)
		for i := range 1000 {
			f.store.Put("a", fmt.Sprint(i))
			if i%10 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		n := 0
		for slow.Position().Revision < f.store.Now() {
			for _, e := range slow.next(t, object.Live).Events {
				if string(e.Object.Value) != fmt.Sprint(n) {
					t.Fatalf("event %d: got %s", n, show([]check.Event{e}))
				}
				n++
			}
		}
		if n != 1000 {
			t.Errorf("got %d events, want 1000", n)
		}
	})
}

// Events that the log has dropped wait for the batch delay, too.
func TestBatchDelayHoldsEventsOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 10_000, logBytes: 2 << 10, messageBytes: 1 << 10})
		slow := f.watchWith(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{BatchDelay: time.Minute})
		slow.sync(t, object.Reset)
		for range 200 {
			f.store.Put("a", "v")
			synctest.Wait()
		}
		events, messages, began := 0, time.Duration(0), time.Now()
		for events < 200 {
			m, err := slow.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if events += m.Count; time.Since(began) != messages*time.Minute {
				t.Errorf("message %d came after %v, want one each minute", messages, time.Since(began))
			}
			messages++
		}
		if messages < 2 {
			t.Errorf("got %d messages, want several", messages)
		}
	})
}

// A watcher sees no part of a revision while it is appended, even if the log drops segments to
// make room for it.
func TestAtomicWhileTheLogIsTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{logBytes: 4 << 10})
		w := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		w.sync(t, object.Reset)
		f.store.Put("first", "1")
		w.next(t, object.Live)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		reading := false
		f.encoder.hook = func() {
			if reading {
				return // an encoding by the watcher itself
			}
			reading = true
			defer func() { reading = false }()
			if m, err := w.Next(ended); err == nil {
				t.Errorf("got %+v in the middle of a revision", m.Header)
			}
		}
		f.store.Commit(writes(50, 200))
		synctest.Wait()
		f.encoder.hook = nil
		if m := w.next(t, object.Live); len(m.Events) != 50 {
			t.Errorf("got %d events of a revision, want 50", len(m.Events))
		}
	})
}

// A watcher that has fallen behind the window gets a DELTA in its stream, and then live events.
func TestReaderBehindTheWindowGetsADelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 10, logBytes: 1 << 10})
		slow := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		slow.sync(t, object.Reset)
		for i := range 1000 {
			f.store.Put(object.Key(fmt.Sprint("k", i%3)), fmt.Sprint(i))
			if i%10 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if got := show(slow.sync(t, object.Delta)); got != "+k1=997 +k2=998 +k0=999" {
			t.Errorf("got %q", got)
		}
		f.store.Put("k0", "new")
		if got := show(slow.next(t, object.Live).Events); got != "~k0=new" {
			t.Errorf("got %q", got)
		}
	})
}

// Watchers catch up with the difference after a relist if the store has compacted the changes.
func TestWatchersSurviveACompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		f.store.Put("a", "1")
		f.store.Put("b", "1")
		before := f.store.Put("c", "1")
		synctest.Wait()
		w := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		w.sync(t, object.Reset)

		f.store.Change(func() { f.store.Quiet = true })
		f.store.Put("a", "2")
		f.store.Put("b", "2")
		f.store.Put("a", "3")
		f.store.Commit(map[object.Key][]byte{"b": nil})
		f.store.Put("d", "1")
		now := f.store.Now()
		f.store.Change(func() { f.store.Compacted, f.store.Quiet = now, false })

		if got := show(w.sync(t, object.Delta)); got != "~a=3 -b +d=1" || w.Position().Revision != now {
			t.Errorf("got %q up to %v", got, w.Position())
		}
		f.store.Put("c", "2")
		if got := show(w.next(t, object.Live).Events); got != "~c=2" {
			t.Errorf("got %q", got)
		}
		time.Sleep(time.Second) // so that the next watcher does not share an earlier catch-up
		// The differences are not a history, so a resume from before the gap is not a REPLAY.
		late := f.watch(t, object.Scope{}, catchup.FromPosition(object.Position{Epoch: w.Position().Epoch, Revision: before}))
		if got := show(late.sync(t, object.Delta)); got != "~a=3 -b +d=1 ~c=2" {
			t.Errorf("got difference %q", got)
		}
		// A resume from inside the gap may have missed a deletion that nothing records.
		lost := f.watch(t, object.Scope{}, catchup.FromPosition(object.Position{Epoch: w.Position().Epoch, Revision: before + 2}))
		lost.sync(t, object.Reset)
	})
}

func TestNewEpochResetsAllWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		f.store.Put("old", "1")
		synctest.Wait()
		w := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		w.sync(t, object.Reset)
		other := f.watch(t, object.ExactKey("none"), catchup.FromSnapshot(0))
		other.sync(t, object.Reset)

		f.store.Change(func() { f.store.Down = object.ErrUnavailable })
		synctest.Wait()
		f.store.Restart("e2")
		f.store.Change(func() { f.store.Down = nil })
		f.store.Put("new", "1")
		if got := show(w.sync(t, object.Reset)); got != "+new=1" {
			t.Errorf("got %q", got)
		}
		if got := w.Position().Epoch; got != "e2" {
			t.Errorf("got epoch %q, want e2", got)
		}
		if got := show(other.sync(t, object.Reset)); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

func TestStopEndsWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		w := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		w.sync(t, object.Reset)
		f.stop()
		if _, err := w.Next(t.Context()); !errors.Is(err, dispatch.ErrStopped) {
			t.Errorf("got %v", err)
		}
	})
}

// An interest costs nothing after its last watcher has left.
func TestInterestsEndWithTheirLastWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		one := f.dispatcher.Pull(f.workers.NewQueue(), feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{})
		two := f.dispatcher.Pull(f.workers.NewQueue(), feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{})
		three := f.dispatcher.Pull(f.workers.NewQueue(), feed.Interest{Scope: object.ExactKey("a")}, catchup.FromSnapshot(0), dispatch.Options{})
		for _, step := range []struct {
			leave *dispatch.Pulled
			left  int
		}{{nil, 2}, {one, 2}, {two, 1}, {three, 0}} {
			if step.leave != nil {
				step.leave.Close()
			}
			if n := f.dispatcher.Interests(); n != step.left {
				t.Errorf("got %d interests, want %d", n, step.left)
			}
		}
		f.store.Put("a", "1")
		synctest.Wait()
		if n := f.encoder.events.Load(); n != 0 {
			t.Errorf("got %d encodings without watchers, want none", n)
		}
	})
}

// A watch that ends before its first message has a position with an epoch, as every position.
func TestPositionBeforeTheFirstMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		f.store.Put("k", "1")
		synctest.Wait()
		want := object.Position{Epoch: f.cacher.State().Position().Epoch}
		for name, begin := range map[string]catchup.Begin{
			"snapshot":       catchup.FromSnapshot(0),
			"empty position": catchup.FromPosition(object.Position{}),
		} {
			if got := f.watch(t, object.Scope{}, begin).Position(); got != want {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
	})
}
