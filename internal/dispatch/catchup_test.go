package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// Watchers who come to the window at the same place, resuming or falling behind,
// all events or merged, cause as many encodings as one of them.
func TestReadersOfTheWindowShareWhatTheyRead(t *testing.T) {
	for name, options := range map[string]dispatch.Options{"every": {}, "latest": {Latest: true}} {
		t.Run("resuming, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{})
				before := f.store.Put("k", "0")
				for i := range 10 {
					f.store.Put(object.Key(fmt.Sprint("k", i%5)), fmt.Sprint(i))
				}
				synctest.Wait()
				at := object.Position{Epoch: f.cacher.State().Position().Epoch, Revision: before}
				var first []check.Event
				encoded := int64(0)
				for i := range 100 {
					w := f.watchWith(t, dispatch.Interest{}, dispatch.After(at), options)
					events := w.sync(t, object.Replay)
					if i == 0 {
						first, encoded = events, f.encoder.events.Load()
					}
					if show(events) != show(first) {
						t.Fatalf("watcher %d is told %s, the first one %s", i, show(events), show(first))
					}
				}
				if n := f.encoder.events.Load(); n != encoded || n != int64(len(first)) {
					t.Errorf("%d encodings of %d events, %d for the first watcher", n, len(first), encoded)
				}
			})
		})
	}
	t.Run("behind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := start(t, limits{feedBytes: 2 << 10})
			watchers := make([]*watcher, 20)
			for i := range watchers {
				watchers[i] = f.watch(t, object.Scope{}, dispatch.FromSnapshot(0))
				watchers[i].sync(t, object.Reset)
			}
			const changes = 200
			for i := range changes {
				f.store.Put("k", fmt.Sprint(i))
			}
			synctest.Wait()
			f.encoder.events.Store(0)
			for _, w := range watchers {
				for n := 0; n < changes; {
					n += len(w.next(t, object.Live).Events)
				}
			}
			if n := f.encoder.events.Load(); n > changes {
				t.Errorf("%d encodings of %d events", n, changes)
			}
		})
	})
}

// Those who have come earlier and gone silent do not keep others from sharing: room is
// made, also while nothing is written.
func TestRoomIsMadeForOthersToShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{messageBytes: 300, catchUpBytes: 12_000})
		const objects = 50
		for i := range 2 * objects {
			f.store.Put(object.Key(fmt.Sprintf("%d/%03d", i%2, i)), "value")
		}
		synctest.Wait()
		for i := range 2 {
			// Without values the event of an object is made for the part.
			interest := dispatch.Interest{Scope: prefix(t, fmt.Sprint(i)), Projection: object.Projection{OmitValues: true}}
			f.encoder.objects.Store(0)
			for range 100 {
				f.watchInterest(t, interest, dispatch.FromSnapshot(0)).sync(t, object.Reset)
			}
			// The one that a part has no room for is looked at again.
			if n := f.encoder.objects.Load(); n > 2*objects {
				t.Errorf("interest %d: %d objects are encoded %d times", i, objects, n)
			}
			time.Sleep(time.Second)
		}
	})
}

// Watchers who share a snapshot share one piece of small objects that are neighbours, and a
// watcher that is alone is told the bytes of the objects themselves.
func TestWhatIsSharedIsOfFewPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		large := strings.Repeat("x", 10_000)
		for i, value := range []string{"1", "2", large, "3", "4", large, large, "5"} {
			f.store.Put(object.Key(fmt.Sprint(i)), value)
		}
		pieces := func() int {
			synctest.Wait()
			w := f.dispatcher.Pull(f.workers.NewQueue(), dispatch.Interest{}, dispatch.FromSnapshot(0), dispatch.Options{})
			t.Cleanup(w.Close)
			for {
				m, err := w.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if m.Header.Kind != object.CatchUpPart {
					continue
				}
				if events := decode(t, m).Events; len(events) != 8 || string(events[2].Object.Value) != large || string(events[7].Object.Value) != "5" {
					t.Errorf("told of %d objects", len(events))
				}
				return len(m.Events)
			}
		}
		if alone := pieces(); alone != 8 {
			t.Errorf("a watcher that is alone is told %d pieces", alone)
		}
		for range 2 {
			if shared := pieces(); shared != 6 {
				t.Errorf("who comes after it is told %d pieces", shared)
			}
		}
	})
}
