package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// While the store is away, each message states for how long.
func TestMessagesStateHowOldTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		f.store.Put("k", "1")
		synctest.Wait()
		before := f.cacher.State().Position()
		f.store.Put("k", "2")
		synctest.Wait()
		ageOf := func(begin dispatch.Begin, o dispatch.Options, kind object.MessageKind) time.Duration {
			t.Helper()
			w := f.dispatcher.Pull(f.workers.NewQueue(), dispatch.Interest{}, begin, o)
			defer w.Close()
			for {
				m, err := w.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if m.Header.Kind == kind {
					return m.Header.Age
				}
			}
		}
		check := func(when string, want time.Duration) {
			t.Helper()
			now := f.cacher.State().Position()
			for name, got := range map[string]time.Duration{
				"SYNCED after a RESET":  ageOf(dispatch.FromSnapshot(0), dispatch.Options{}, object.Synced),
				"SYNCED after a REPLAY": ageOf(dispatch.FromPosition(before), dispatch.Options{}, object.Synced),
				"BOOKMARK of now":       ageOf(dispatch.FromNow(now), dispatch.Options{}, object.Bookmark),
				"last BOOKMARK":         ageOf(dispatch.FromSnapshot(0), dispatch.Options{LastBookmark: time.Now()}, object.Bookmark),
				"LIVE":                  ageOf(dispatch.FromNow(before), dispatch.Options{}, object.Live),
			} {
				if got != want {
					t.Errorf("%s, %s: got an age of %v, want %v", when, name, got, want)
				}
			}
		}
		check("at once", 0)
		lost := time.Now()
		f.store.Change(func() { f.store.Quiet, f.store.Down = true, object.ErrUnavailable })
		time.Sleep(time.Minute)
		check("a minute after the store was lost", time.Since(lost))
	})
}
