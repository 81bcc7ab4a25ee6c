package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// outages lose the store of a fixture in several ways. The result brings it back.
var outages = map[string]func(f *fixture) (back func()){
	"nothing was written": func(f *fixture) func() { return lose(f, false) },
	"changes were missed": func(f *fixture) func() {
		back := lose(f, false)
		f.store.Put("elsewhere/k", "1")
		return back
	},
	"the watch was opened again": func(f *fixture) func() { return lose(f, true) },
}

func lose(f *fixture, watchFails bool) (back func()) {
	f.store.Change(func() {
		f.store.Quiet = true
		f.store.Fault = func(method string) error {
			if method == "Next" && !watchFails {
				return nil
			}
			return object.ErrUnavailable
		}
	})
	return func() { f.store.Change(func() { f.store.Quiet, f.store.Fault = false, nil }) }
}

// Soon after the store is back, clients get a bookmark that says that they are up to date. They
// need not wait for a whole interval.
func TestBookmarkSoonAfterTheStoreIsBack(t *testing.T) {
	for name, lose := range outages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const interval, soon = 20 * time.Second, 7 * time.Second // the cacher itself tries again every 5 s
				f := start(t, limits{})
				f.store.Put("k", "1")
				synctest.Wait()
				i := feed.Interest{Scope: prefix(t, "quiet")}
				begin, options := catchup.FromNow(f.cacher.State().Position()), dispatch.Options{BookmarkInterval: interval}
				w := f.watchWith(t, i, begin, options)
				w.next(t, object.Bookmark)
				s := f.stream(t, dispatch.StreamConfig{})
				s.begin(f.dispatcher, 1, i, begin, options)
				time.Sleep(time.Second)
				s.take()

				back := lose(f)
				time.Sleep(2*interval + interval/3)
				fresh := map[uint64]bool{} // watches of the stream with a bookmark that states no age
				s.locked(func() {
					s.seen = func(r *dispatch.Response, _ time.Time) {
						for _, e := range r.Entries {
							if e.Batch != nil && e.Batch.Header.Kind == object.Bookmark && e.Batch.Header.Age == 0 {
								for _, id := range e.IDs.All() {
									fresh[id] = true
								}
							}
						}
					}
				})
				s.take()
				// Watches that begin now have just sent a message, but an old one.
				late := f.watchWith(t, i, begin, options)
				if m, err := late.Next(t.Context()); err != nil || m.Header.Kind != object.Bookmark || m.Header.Age < interval {
					t.Errorf("got kind %d with an age of %v and %v during the outage, want an old bookmark", m.Header.Kind, m.Header.Age, err)
				}
				s.begin(f.dispatcher, 2, feed.Interest{Scope: prefix(t, "quiet"), Projection: object.Projection{OmitValues: true}}, begin, options)
				s.take()
				back()
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				for name, w := range map[string]*watcher{"early": w, "late": late} {
					for upToDate := false; !upToDate; {
						m, err := w.Next(ctx)
						if err != nil {
							t.Fatalf("%s, after the store is back: %v", name, err)
						}
						upToDate = m.Header.Kind == object.Bookmark && m.Header.Age == 0
					}
				}
				<-ctx.Done()
				s.take()
				if !fresh[1] || !fresh[2] {
					t.Errorf("after the store is back: got bookmarks of the watches %v of the stream, want 1 and 2", fresh)
				}
			})
		})
	}
}

// While nothing at all is written, a store answers no progress requests. Bookmarks still confirm
// the state, as often as a client asks for them.
func TestBookmarksOfAnIdleStoreAreFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		f.store.Change(func() { f.store.Quiet = true })
		w := f.watchWith(t, feed.Interest{}, catchup.FromNow(f.cacher.State().Position()), dispatch.Options{BookmarkInterval: time.Second})
		w.next(t, object.Bookmark)
		for range 30 {
			m, err := w.Next(t.Context())
			if err != nil || m.Header.Kind != object.Bookmark || m.Header.Age > 1500*time.Millisecond {
				t.Fatalf("got kind %d with an age of %v and %v, want a bookmark of the last interval", m.Header.Kind, m.Header.Age, err)
			}
		}
	})
}
