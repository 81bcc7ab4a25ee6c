package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/dispatch/parts"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// The memory of shared catch-ups is bounded. It is freed when the last watcher leaves or the
// catch-ups are out of date.
func TestBoundedCatchUpCache(t *testing.T) {
	for _, limit := range []int{2000, 1 << 20} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			cfg, window := feed.Config{MessageBytes: 300, CatchUpBytes: limit}, cacher.WindowLimits{MaxChanges: 20}
			bubbleWithWindow(t, cfg, window, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
				for i := range 50 {
					m.Put(object.Key(fmt.Sprint(i)), "value")
				}
				synctest.Wait()
				var watchers []*Pulled
				catchUp := func() {
					now := d.feeds.Config.Source.State().Position()
					for _, begin := range []catchup.Begin{
						catchup.FromSnapshot(0),
						catchup.FromPosition(object.Position{Epoch: now.Epoch, Revision: 1}),
						catchup.FromPosition(object.Position{Epoch: now.Epoch, Revision: now.Revision - 10}),
					} {
						w := d.Pull(q, feed.Interest{}, begin, Options{})
						watchers = append(watchers, w)
						for {
							message, err := w.Next(t.Context())
							if err != nil {
								t.Fatal(err)
							}
							if n := d.Stats().CatchUpBytes; n > int64(limit) {
								t.Fatalf("got %d cached bytes, want at most %d", n, limit)
							}
							if message.Header.Kind == object.Synced {
								break
							}
						}
					}
					if d.Stats().CatchUpBytes == 0 {
						t.Fatal("nothing is cached")
					}
				}
				catchUp()
				catchUp() // the second use of a part coalesces its pieces
				time.Sleep(2 * parts.CacheAge)
				m.Put("next", "value")
				synctest.Wait()
				if n := d.Stats().CatchUpBytes; n != 0 {
					t.Errorf("got %d cached bytes after they are out of date, want none", n)
				}
				catchUp()
				for _, w := range watchers {
					w.Close()
				}
				if n := d.Stats().CatchUpBytes; n != 0 {
					t.Errorf("got %d cached bytes after all watchers have left, want none", n)
				}
			})
		})
	}
}
