package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// Watchers that read the window from the same position cause as many encodings as one of them.
// That holds for resumed watchers and for slow ones, with every event and with LATEST.
func TestReadersOfTheWindowShareEncodings(t *testing.T) {
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
					w := f.watchWith(t, feed.Interest{}, catchup.FromPosition(at), options)
					events := w.sync(t, object.Replay)
					if i == 0 {
						first, encoded = events, f.encoder.events.Load()
					}
					if show(events) != show(first) {
						t.Fatalf("watcher %d got %s, the first one %s", i, show(events), show(first))
					}
				}
				if n := f.encoder.events.Load(); n != encoded || n != int64(len(first)) {
					t.Errorf("got %d encodings of %d events, %d of them for the first watcher", n, len(first), encoded)
				}
			})
		})
	}
	t.Run("behind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := start(t, limits{logBytes: 2 << 10})
			watchers := make([]*watcher, 20)
			for i := range watchers {
				watchers[i] = f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
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
				t.Errorf("got %d encodings of %d events", n, changes)
			}
		})
	})
}

// The cache drops the parts of earlier catch-ups to make room for others, even while nothing
// is written.
func TestCatchUpCacheMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{messageBytes: 300, catchUpBytes: 12_000})
		const objects = 50
		for i := range 2 * objects {
			f.store.Put(object.Key(fmt.Sprintf("%d/%03d", i%2, i)), "value")
		}
		synctest.Wait()
		for i := range 2 {
			// Without values, the event of an object is encoded for the part.
			interest := feed.Interest{Scope: prefix(t, fmt.Sprint(i)), Projection: object.Projection{OmitValues: true}}
			f.encoder.objects.Store(0)
			for range 100 {
				f.watchInterest(t, interest, catchup.FromSnapshot(0)).sync(t, object.Reset)
			}
			// An object that no longer fits a part is encoded again for the next part.
			if n := f.encoder.objects.Load(); n > 2*objects {
				t.Errorf("interest %d: got %[3]d encodings of %[2]d objects", i, objects, n)
			}
			time.Sleep(time.Second)
		}
	})
}

// In a shared snapshot, small neighbouring objects are joined to one piece. A watcher that is
// alone gets the bytes of each object, without a copy.
func TestSharedSnapshotHasFewPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		large := strings.Repeat("x", 10_000)
		for i, value := range []string{"1", "2", large, "3", "4", large, large, "5"} {
			f.store.Put(object.Key(fmt.Sprint(i)), value)
		}
		pieces := func() int {
			synctest.Wait()
			w := f.dispatcher.Pull(f.workers.NewQueue(), feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{})
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
					t.Errorf("got %d objects, or other values, want 8", len(events))
				}
				return len(m.Events)
			}
		}
		if alone := pieces(); alone != 8 {
			t.Errorf("got %d pieces for a watcher that is alone, want 8", alone)
		}
		for range 2 {
			if shared := pieces(); shared != 6 {
				t.Errorf("got %d pieces for a later watcher, want 6", shared)
			}
		}
	})
}
