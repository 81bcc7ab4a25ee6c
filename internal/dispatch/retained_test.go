package dispatch_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// heap returns the bytes of memory that are in use.
func heap() int64 {
	// What is in a pool is given up by the second collection.
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Watchers who stop reading in the middle of a snapshot or of a difference do not each
// keep what everything was when they began. When nobody has read for long they keep
// nothing but the message that is on its way to them.
func TestBoundedFromReadersThatStopWithinACatchUp(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const (
		objects, size = 200, 4 << 10
		everything    = objects * 2 * (size + size/4) // an object has its value and its event
		message       = 8 << 10
		watchers      = 30
		states        = 3
	)
	for name, kind := range map[string]object.CatchUp{"RESET": object.Reset, "DELTA": object.Delta} {
		for _, silence := range []time.Duration{time.Second, time.Hour} {
			t.Run(fmt.Sprint(name, " and silence for ", silence), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := start(t, limits{window: 10, messageBytes: message, feedBytes: 64 << 10, catchUpStates: states})
					rewrite := func() {
						value := strings.Repeat("v", size)
						for i := range objects {
							f.store.Put(object.Key(fmt.Sprintf("k%03d", i)), value)
						}
						synctest.Wait()
					}
					rewrite()
					begin := dispatch.FromSnapshot(0)
					if kind == object.Delta {
						begin = dispatch.After(f.cacher.State().Position())
					}
					rewrite()
					all := make([]*watcher, watchers)
					for i := range all {
						all[i] = f.watch(t, object.Scope{}, begin)
						if m := all[i].next(t, object.CatchUpBegin); m.CatchUp != kind {
							t.Fatalf("the catch-up is of kind %d, want %d", m.CatchUp, kind)
						}
						all[i].next(t, object.CatchUpPart)
						all[i].stream.Messages = nil // what memory is used shall not be the test's
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
					t.Logf("%d watchers who do not read kept %d KiB; everything there is has %d KiB", watchers, held>>10, everything>>10)
					most := int64((states + 2) * everything)
					if silence > time.Minute {
						most = everything
					}
					if held > most {
						t.Errorf("%d watchers who do not read kept %d KiB, want at most %d KiB", watchers, held>>10, most>>10)
					}
				})
			})
		}
	}
}

// Who is slow arrives, whatever is written meanwhile and however many others come, of
// whom each begins with another state: a catch-up does not begin anew for ever.
func TestSlowReadersFinishTheirCatchUp(t *testing.T) {
	for name, kind := range map[string]object.CatchUp{"RESET": object.Reset, "DELTA": object.Delta} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const (
					objects = 60
					states  = 3
					rounds  = 300
					// To wait until those are through who came first, and then as
					// many messages as there are objects, and some.
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
				begin := dispatch.After(f.cacher.State().Position())
				rewrite()
				came := map[*watcher]int{} // by who is under way
				arrived := 0
				for round := range rounds {
					if kind == object.Reset {
						begin = dispatch.FromSnapshot(f.store.Now())
					}
					came[f.watch(t, object.Scope{}, begin)] = round
					for w, at := range came {
						m, err := w.receive(t)
						if err != nil {
							t.Fatal(err)
						}
						if m.Kind == object.CatchUpBegin && m.CatchUp != kind {
							t.Fatalf("the catch-up is of kind %d, want %d", m.CatchUp, kind)
						}
						if round-at > most {
							t.Fatalf("a watcher has read for %d rounds and is not through, with %d objects to read", round-at, objects)
						}
						if m.Kind == object.Synced {
							arrived++
							w.Close()
							delete(came, w)
						}
					}
					rewrite()
					time.Sleep(time.Second)
				}
				if arrived < rounds-most {
					t.Errorf("%d watchers have arrived, of %d who came in time", arrived, rounds-most)
				}
			})
		})
	}
}
