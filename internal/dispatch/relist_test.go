package dispatch_test

import (
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

// lose makes the cacher lose the writes: its watch sends nothing until the store has compacted
// them, and the cacher lists again.
func (f *fixture) lose(write func()) check.Gap {
	synctest.Wait()
	gap := check.Gap{After: f.store.Now()}
	f.store.Change(func() { f.store.Quiet = true })
	write()
	gap.Until = f.store.Now()
	f.store.Change(func() { f.store.Compacted, f.store.Quiet = gap.Until, false })
	synctest.Wait()
	return gap
}

func (f *fixture) remove(key object.Key) { f.store.Commit(map[object.Key][]byte{key: nil}) }

// Nine changes are lost. The watcher gets what the server knows of them as a DELTA, and not as
// live events: it could not tell that events are missing between their positions.
func TestReliableAcrossARelist(t *testing.T) {
	for name, options := range map[string]dispatch.Options{"every": {}, "latest": {Latest: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{})
				for _, key := range []object.Key{"a", "b", "c"} {
					f.store.Put(key, "1")
				}
				synctest.Wait()
				w := f.watchWith(t, feed.Interest{}, catchup.FromSnapshot(0), options)
				w.stream.Begin = check.FromNothing
				w.sync(t, object.Reset)
				f.store.Put("c", "2")
				w.next(t, object.Live)
				gap := f.lose(func() {
					for i := range 4 {
						f.store.Put("a", fmt.Sprint(2+i))
					}
					f.remove("b")
					f.store.Put("b", "again")
					f.store.Put("passing", "1")
					f.remove("passing")
					f.remove("c")
				})
				// The deletion of c has the revision of the relist, which is its own here.
				if got, want := show(w.sync(t, object.Delta)), "~a=5 +b=again -c"; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if got := w.Position().Revision; got != gap.Until {
					t.Errorf("got revision %d, want %d", got, gap.Until)
				}
				f.store.Put("d", "1")
				w.next(t, object.Live)
				truth := f.truth(t)
				truth.Window, truth.Tombstones, truth.Gaps = 1000, 1000, []check.Gap{gap}
				h := &check.History{Watcher: name, Latest: options.Latest, Streams: []check.Stream{w.stream}}
				if err := check.Validate(h, truth); err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("every event or none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := start(t, limits{})
			at := f.store.Put("a", "1")
			synctest.Wait()
			w := f.watchWith(t, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{EveryEvent: true})
			w.sync(t, object.Reset)
			f.lose(func() { f.store.Put("a", "2") })
			m, err := w.receive(t)
			if lost, ok := errors.AsType[*catchup.LostError](err); !ok || lost.Asked != at {
				t.Errorf("got %+v and error %v, want a LostError for revision %d", m, err, at)
			}
		})
	})
}

// A position that passes lost changes comes with a DELTA, even if the server found no
// difference. An object may have come and gone.
func TestReliableWithoutADifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		f.store.Put("other", "1")
		synctest.Wait()
		w := f.watch(t, object.ExactKey("passing"), catchup.FromSnapshot(0))
		w.sync(t, object.Reset)
		gap := f.lose(func() {
			f.store.Put("passing", "1")
			f.remove("passing")
		})
		if events := w.sync(t, object.Delta); len(events) > 0 {
			t.Errorf("got %q, want no event", show(events))
		}
		if got := w.Position().Revision; got != gap.Until {
			t.Errorf("got revision %d, want %d", got, gap.Until)
		}
	})
}

// The events of the DELTA after a relist come in order of their revisions. That includes objects
// that leave the view.
func TestOrderedDifferencesOfARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{codec: "object"})
		write := func(key object.Key, value, env string) {
			f.store.Commit(map[object.Key][]byte{key: labelled(t, value, env)})
		}
		for _, key := range []object.Key{"leaves", "stays", "vanishes"} {
			write(key, "1", "prod")
		}
		synctest.Wait()
		w := f.watchInterest(t, picking(t, "env=prod"), catchup.FromSnapshot(0))
		w.sync(t, object.Reset)
		f.lose(func() {
			f.remove("vanishes")
			write("leaves", "2", "test")
			write("comes", "2", "prod")
			write("stays", "2", "prod")
			write("another", "1", "")
		})
		events := w.sync(t, object.Delta)
		if got, want := show(events), "-leaves +comes=2 ~stays=2 -another -vanishes"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		last := object.Revision(0)
		for _, e := range events {
			if e.Revision < last {
				t.Errorf("%v comes after revision %d", &e, last)
			}
			last = e.Revision
		}
	})
}

// All watchers of an interest that have delivered everything share the DELTA after a relist,
// whatever the positions of their last messages are.
func TestWatchersShareTheDifferenceOfARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		f.store.Put("team/a", "1")
		f.store.Put("team/b", "1")
		synctest.Wait()
		const count = 50
		var all []*watcher
		positions := map[object.Revision]bool{}
		for range count {
			w := f.watch(t, prefix(t, "team"), catchup.FromSnapshot(0))
			w.sync(t, object.Reset)
			positions[w.Position().Revision] = true
			all = append(all, w)
			f.store.Put("other", "1")
			time.Sleep(time.Second) // so that the next watcher does not share this catch-up
		}
		if len(positions) != count {
			t.Fatalf("got %d positions, want %d", len(positions), count)
		}
		f.encoder.events.Store(0)
		gap := f.lose(func() {
			f.store.Put("team/a", "2")
			f.remove("team/b")
		})
		for _, w := range all {
			if got, want := show(w.sync(t, object.Delta)), "~team/a=2 -team/b"; got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
			if begun := w.stream.Messages[len(w.stream.Messages)-3].Position.Revision; begun != gap.After {
				t.Fatalf("the DELTA begins at revision %d, want %d", begun, gap.After)
			}
		}
		if n := f.encoder.events.Load(); n != 2 {
			t.Errorf("got %d encodings of two events", n)
		}
	})
}

// A watcher that has not delivered everything before a relist gets the rest with the DELTA.
func TestSlowWatcherAcrossARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		before := f.store.Put("a", "1")
		synctest.Wait()
		w := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		w.sync(t, object.Reset)
		f.store.Put("b", "1") // waits for the watcher
		f.store.Put("a", "2")
		f.lose(func() { f.store.Put("c", "1") })
		if got, want := show(w.sync(t, object.Delta)), "+b=1 ~a=2 +c=1"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if begun := w.stream.Messages[len(w.stream.Messages)-3].Position.Revision; begun != before {
			t.Errorf("the DELTA begins at revision %d, want %d", begun, before)
		}
	})
}

// A small DELTA needs no slot: after a relist, every watcher has one.
func TestSmallDifferencesNeedNoSlot(t *testing.T) {
	for name, tc := range map[string]struct {
		size     int
		acquired bool
	}{"small": {1 << 10, false}, "large": {100 << 10, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{})
				f.store.Put("k", "1")
				synctest.Wait()
				c := &crowd{each: func(*member, *feed.Batch) {}}
				m := f.join(t, c, f.workers.NewQueue(), feed.Interest{}, dispatch.Options{})
				f.lose(func() { f.store.Put("k", string(make([]byte, tc.size))) })
				if at := m.last.Header; at.Kind != object.Synced {
					t.Fatalf("the last message is %+v, want SYNCED", at)
				}
				if acquired := m.acquires.Load() > 0; acquired != tc.acquired {
					t.Errorf("acquired: got %v, want %v", acquired, tc.acquired)
				}
			})
		})
	}
}
