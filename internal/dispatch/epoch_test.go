package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// A watcher may load the dispatched revision of one epoch and then the log of the next one. It
// must not move to that revision in the new epoch. Only a test inside the package can hit that
// moment.
func TestRevisionsOfAnotherEpochAreNotUsed(t *testing.T) {
	bubble(t, feed.Config{}, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
		for range 100 {
			m.Put("k", "1")
		}
		synctest.Wait()
		before := d.feeds.DispatchedUpTo.Load()

		m.Change(func() { m.Down = object.ErrUnavailable })
		synctest.Wait()
		m.Restart("e2")
		m.Put("k", "1")
		m.Change(func() { m.Down = nil })
		w := d.Pull(q, feed.Interest{}, catchup.FromPosition(object.Position{Epoch: "e1", Revision: 1}), Options{})
		defer w.Close()
		for w.Position().Epoch != "e2" || w.Position().Revision == 0 {
			if _, err := w.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		d.feeds.DispatchedUpTo.Store(before)
		if b, ok := w.cursor.NextBatch(time.Now()); b != nil || !ok {
			t.Fatalf("got %v, %v; want no batch", b, ok)
		}
		if got := w.Position(); got.Revision > d.feeds.Config.Source.State().Revision() {
			t.Errorf("got position %v, want at most %v", got, d.feeds.Config.Source.State().Position())
		}
	})
}
