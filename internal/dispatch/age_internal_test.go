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

// A batch that was made before the store was lost is made again for a watcher that comes late,
// because it would not say how old it is. Watchers that come at the same time share it.
func TestASharedBatchThatIsOldIsMadeAgain(t *testing.T) {
	bubble(t, feed.Config{}, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
		var watchers [4]*Polled
		for i := range watchers {
			watchers[i] = d.Poll(q, feed.Interest{}, catchup.FromNow(d.feeds.Config.Source.State().Position()), Options{})
			defer watchers[i].Close()
			if _, ok, _ := watchers[i].Try(); !ok {
				t.Fatal("got no bookmark")
			}
		}
		m.Put("k", "1")
		synctest.Wait()
		m.Change(func() { m.Quiet, m.Down = true, object.ErrUnavailable })
		poll := func(w *Polled) *feed.Batch {
			b, outcome := w.Poll(time.Now())
			if outcome != Found {
				t.Fatalf("got outcome %d, want a batch", outcome)
			}
			return b
		}
		first, second := poll(watchers[0]), poll(watchers[1])
		if first != second || first.Header.Age != 0 {
			t.Errorf("got batches %p and %p with an age of %v, want one without", first, second, first.Header.Age)
		}
		time.Sleep(20 * time.Second)
		third, fourth := poll(watchers[2]), poll(watchers[3])
		if third != fourth || third.Header.Age != 20*time.Second {
			t.Errorf("got batches %p and %p with an age of %v, want one with 20s", third, fourth, third.Header.Age)
		}
	})
}
