package dispatch

import (
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// An event that comes after a watcher has looked and before it sleeps does not
// let it sleep. From outside the moment cannot be hit.
func TestNoWakeUpIsLost(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, _ *sendqueue.Queue) {
		w := d.Watch(Interest{}, FromNow(d.cfg.Source.State().Position()), Options{})
		defer w.Close()
		if _, ok, _ := w.poll(); !ok {
			t.Fatal("there is no bookmark")
		}
		if _, ok, _ := w.poll(); ok || !w.park() {
			t.Fatal("there is something besides the bookmark")
		}
		if _, ok, _ := w.poll(); ok {
			t.Fatal("there is something besides the bookmark")
		}
		m.Put("k", "1")
		synctest.Wait()
		if w.park() {
			t.Error("the watcher sleeps through an event")
		}
		if _, ok, _ := w.poll(); !ok {
			t.Error("the event is not there")
		}
	})
}
