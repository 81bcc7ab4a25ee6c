package dispatch_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/object"
)

// heap returns the bytes of the heap in use.
func heap() int64 {
	// The second collection frees the contents of pools.
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A retained state is dropped after a minute without a read, also while nothing changes.
func TestIdleDispatcherReleasesRetainedStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{messageBytes: 1 << 10})
		for i := range 20 {
			f.store.Put(object.Key(fmt.Sprintf("k%03d", i)), strings.Repeat("v", 512))
		}
		synctest.Wait()
		w := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		w.next(t, object.CatchUpBegin)
		w.next(t, object.CatchUpPart)
		if n := f.dispatcher.Stats().CatchUpStates; n != 1 {
			t.Fatalf("got %d retained states during the catch-up, want 1", n)
		}
		time.Sleep(90 * time.Second)
		if n := f.dispatcher.Stats().CatchUpStates; n != 0 {
			t.Errorf("got %d retained states after 90 s without a read, want 0", n)
		}
		w.Close()
	})
}

// Watchers that stop reading in the middle of a RESET or a DELTA share a few retained states.
// After a long silence they keep no more than one state in total.
func TestBoundedFromReadersThatStopWithinACatchUp(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const (
		objects, size = 200, 4 << 10
		stateBytes    = objects * 2 * (size + size/4) // of each object: its value and its event
		message       = 8 << 10
		watchers      = 30
		states        = 3
	)
	for name, kind := range map[string]object.CatchUpKind{"RESET": object.Reset, "DELTA": object.Delta} {
		for _, silence := range []time.Duration{time.Second, time.Hour} {
			t.Run(fmt.Sprint(name, " and silence for ", silence), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := start(t, limits{window: 10, messageBytes: message, logBytes: 64 << 10, catchUpStates: states})
					rewrite := func() {
						value := strings.Repeat("v", size)
						for i := range objects {
							f.store.Put(object.Key(fmt.Sprintf("k%03d", i)), value)
						}
						synctest.Wait()
					}
					rewrite()
					begin := catchup.FromSnapshot(0)
					if kind == object.Delta {
						begin = catchup.FromPosition(f.cacher.State().Position())
					}
					rewrite()
					all := make([]*watcher, watchers)
					for i := range all {
						all[i] = f.watch(t, object.Scope{}, begin)
						if m := all[i].next(t, object.CatchUpBegin); m.CatchUp != kind {
							t.Fatalf("got catch-up %d, want %d", m.CatchUp, kind)
						}
						all[i].next(t, object.CatchUpPart)
						all[i].stream.Messages = nil // the test's own memory must not count
						rewrite()
						time.Sleep(time.Second)
						rewrite()
					}
					time.Sleep(silence)
					f.store.Put("k000", "v")
					synctest.Wait()

					before := heap()
					for _, w := range all {
						w.Close()
					}
					held := before - heap()
					runtime.KeepAlive(all)
					t.Logf("%d watchers kept %d KiB; one state has %d KiB", watchers, held>>10, stateBytes>>10)
					most := int64((states + 2) * stateBytes)
					if silence > time.Minute {
						most = stateBytes
					}
					if held > most {
						t.Errorf("%d watchers kept %d KiB, want at most %d KiB", watchers, held>>10, most>>10)
					}
				})
			})
		}
	}
}

// A slow watcher finishes its catch-up, although other watchers come all the time and each of
// them begins with another state.
func TestSlowReadersFinishTheirCatchUp(t *testing.T) {
	for name, kind := range map[string]object.CatchUpKind{"RESET": object.Reset, "DELTA": object.Delta} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const (
					objects = 60
					states  = 3
					rounds  = 300
					// A watcher waits for the earlier ones, and then needs a message for
					// each object and a few more.
					most = 5 * objects / 2
				)
				f := start(t, limits{window: 5, messageBytes: 10, catchUpStates: states})
				rewrite := func() {
					for i := range objects {
						f.store.Put(object.Key(fmt.Sprintf("k%03d", i)), "v")
					}
					synctest.Wait()
				}
				rewrite()
				begin := catchup.FromPosition(f.cacher.State().Position())
				rewrite()
				began := map[*watcher]int{} // the first round of each unfinished watcher
				finished := 0
				for round := range rounds {
					if kind == object.Reset {
						begin = catchup.FromSnapshot(f.store.Now())
					}
					began[f.watch(t, object.Scope{}, begin)] = round
					for w, at := range began {
						m, err := w.receive(t)
						if err != nil {
							t.Fatal(err)
						}
						if m.Kind == object.CatchUpBegin && m.CatchUp != kind {
							t.Fatalf("got catch-up %d, want %d", m.CatchUp, kind)
						}
						if round-at > most {
							t.Fatalf("a watcher has read for %d rounds and has not finished a catch-up of %d objects", round-at, objects)
						}
						if m.Kind == object.Synced {
							finished++
							w.Close()
							delete(began, w)
						}
					}
					rewrite()
					time.Sleep(time.Second)
				}
				if finished < rounds-most {
					t.Errorf("got %d finished watchers, want at least %d", finished, rounds-most)
				}
			})
		})
	}
}

// A watcher whose REPLAY lost its history catches up to the newest state. It does not read a
// retained state, which would have to stay for it.
func TestLostReplayLeadsToTheNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 5, messageBytes: 10, logBytes: 1}) // one event in each part
		rewrite := func() {
			for range 10 {
				f.store.Put("k", "v")
				f.store.Put("l", "v")
			}
			synctest.Wait()
		}
		rewrite()
		from := f.cacher.State().Position()
		from.Revision -= 2
		replays := f.watch(t, object.Scope{}, catchup.FromPosition(from))
		if m := replays.next(t, object.CatchUpBegin); m.CatchUp != object.Replay {
			t.Fatalf("got catch-up %v, want a REPLAY", m.CatchUp)
		}
		rewrite()
		slow := f.watch(t, object.Scope{}, catchup.FromSnapshot(f.store.Now()))
		slow.next(t, object.CatchUpBegin)
		slow.next(t, object.CatchUpPart)
		if n := f.dispatcher.Stats().CatchUpStates; n != 1 {
			t.Fatalf("got %d retained states, want 1", n)
		}
		time.Sleep(time.Second)
		rewrite()
		replays.sync(t, object.Delta)
		if at, now := replays.Position().Revision, f.store.Now(); at != now {
			t.Errorf("synced at revision %d, want the newest one, %d", at, now)
		}
	})
}

// A RESET that starts over twice does not lead to an older state the second time.
func TestCatchUpThatStartsOverDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 5, messageBytes: 10}) // one object in each part
		rewrite := func() {
			for i := range 10 {
				f.store.Put(object.Key(fmt.Sprint("x/", i)), "v")
			}
			synctest.Wait()
		}
		wantRetained := func(want int) {
			t.Helper()
			if n := f.dispatcher.Stats().CatchUpStates; n != want {
				t.Fatalf("got %d retained states, want %d", n, want)
			}
		}
		begin := func(w *watcher) *watcher {
			w.next(t, object.CatchUpBegin)
			w.next(t, object.CatchUpPart)
			return w
		}
		rewrite()
		w := begin(f.watch(t, object.Scope{}, catchup.FromSnapshot(0)))
		time.Sleep(90 * time.Second) // the state of w is released
		wantRetained(0)
		rewrite() // moves the window past its snapshot

		// A newer state is retained first, and an older one, which the watchers of another
		// interest share, after it.
		x := prefix(t, "x")
		f.watch(t, x, catchup.FromSnapshot(f.store.Now())).sync(t, object.Reset)
		f.store.Put("y", "w")
		synctest.Wait()
		newer := begin(f.watch(t, object.Scope{}, catchup.FromSnapshot(f.store.Now())))
		older := begin(f.watch(t, x, catchup.FromSnapshot(0)))
		wantRetained(2)
		begin(w) // starts over with the newer state
		least := f.store.Now()
		newer.Close()

		time.Sleep(30 * time.Second)
		older.next(t, object.CatchUpPart)
		time.Sleep(45 * time.Second) // the newer state is released
		wantRetained(1)
		rewrite()
		w.sync(t, object.Reset)
		if last := w.stream.Messages[len(w.stream.Messages)-1]; last.Position.Revision < least {
			t.Errorf("synced at revision %d, after a snapshot at revision %d", last.Position.Revision, least)
		}
	})
}
