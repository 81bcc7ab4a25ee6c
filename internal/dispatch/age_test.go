package dispatch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
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
		ageOf := func(begin catchup.Begin, o dispatch.Options, kind object.MessageKind) time.Duration {
			t.Helper()
			w := f.dispatcher.Pull(f.workers.NewQueue(), feed.Interest{}, begin, o)
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
				"SYNCED after a RESET":  ageOf(catchup.FromSnapshot(0), dispatch.Options{}, object.Synced),
				"SYNCED after a REPLAY": ageOf(catchup.FromPosition(before), dispatch.Options{}, object.Synced),
				"BOOKMARK of now":       ageOf(catchup.FromNow(now), dispatch.Options{}, object.Bookmark),
				"last BOOKMARK":         ageOf(catchup.FromSnapshot(0), dispatch.Options{LastBookmark: time.Now()}, object.Bookmark),
				"LIVE":                  ageOf(catchup.FromNow(before), dispatch.Options{}, object.Live),
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

// A watcher that is behind gets old changes, although the server is up to date. Messages say so
// until the last change.
func TestMessagesToASlowWatcherStateTheirAge(t *testing.T) {
	for name, logBytes := range map[string]int{"log": 0, "window": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{messageBytes: 1, logBytes: logBytes})
				f.store.Put("k", "0")
				synctest.Wait()
				before := f.cacher.State().Position()
				other := f.dispatcher.Pull(f.workers.NewQueue(), feed.Interest{}, catchup.FromNow(before), dispatch.Options{}) // keeps the feed
				defer other.Close()
				w := f.dispatcher.Pull(f.workers.NewQueue(), feed.Interest{}, catchup.FromNow(before), dispatch.Options{})
				defer w.Close()
				for _, value := range []string{"1", "2", "3"} {
					f.store.Put("k", value)
				}
				time.Sleep(30 * time.Second)
				var old []bool
				for len(old) < 3 {
					m, err := w.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if m.Header.Kind == object.Live {
						old = append(old, m.Header.Age >= 30*time.Second)
					}
				}
				if want := []bool{true, true, false}; !slices.Equal(old, want) {
					t.Errorf("messages with an age of 30s: got %v, want %v", old, want)
				}
			})
		})
	}
}
