package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// An event that comes after the worker's last poll and before the watcher joins its group wakes
// the watcher. Only a test inside the package can hit that moment.
func TestNoEventIsMissedBetweenPollAndJoin(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
		w := d.Polled(q, Interest{}, FromNow(d.cfg.Source.State().Position()), Options{})
		defer w.Close()
		defer w.group.leave(w)
		if _, ok, _ := w.Try(); !ok {
			t.Fatal("got no bookmark")
		}
		if _, result := w.poll(time.Now()); result != pollNothing || !w.joinGroup(time.Now()) {
			t.Fatal("got something besides the bookmark")
		}
		w.group.leave(w)
		if _, result := w.poll(time.Now()); result != pollNothing {
			t.Fatal("got something besides the bookmark")
		}
		m.Put("k", "1")
		synctest.Wait()
		if w.joinGroup(time.Now()) {
			t.Error("the watcher waits although there is an event")
		}
		if _, result := w.poll(time.Now()); result != pollBatch {
			t.Error("got no event")
		}
	})
}
