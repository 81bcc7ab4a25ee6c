package dispatch_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Watchers that read while the feed grows get every event once. The result depends on the order
// of the dispatcher's stores and the watchers' loads, so the test uses real threads instead of
// synctest.
func TestReliableWhileTheFeedGrows(t *testing.T) {
	f := start(t, limits{})
	const events, watchers = 4000, 8
	begin := catchup.FromNow(f.cacher.State().Position())
	var reading sync.WaitGroup
	for range watchers {
		interest := feed.Interest{Scope: object.ExactKey("k")}
		w := f.dispatcher.Pull(f.workers.NewQueue(), interest, begin, dispatch.Options{})
		reading.Go(func() {
			defer w.Close()
			for next := 0; next < events; {
				m, err := w.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range decode(t, m).Events {
					if got := string(e.Object.Value); got != strconv.Itoa(next) {
						t.Errorf("got value %[2]s for event %[1]d", next, got)
						return
					}
					next++
				}
			}
		})
	}
	for i := range events {
		f.store.Put("k", strconv.Itoa(i))
	}
	reading.Wait()
}
