package dispatch

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// The logs drop old events, with and without new ones. A watcher that has not read them gets
// them from the window.
func TestLogsDropOldEvents(t *testing.T) {
	bubble(t, feed.Config{LogAge: time.Minute}, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
		begin := catchup.FromNow(d.feeds.Config.Source.State().Position())
		quick, slow := d.Poll(q, feed.Interest{}, begin, Options{}), d.Poll(q, feed.Interest{}, begin, Options{})
		defer quick.Close()
		defer slow.Close()
		read := func(w *Polled) (events int) {
			for {
				message, ok, err := w.Try()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					return events
				}
				events += message.Count
			}
		}
		read(quick)
		read(slow)
		for i := range 100 {
			m.Put(object.Key(fmt.Sprint(i)), strings.Repeat("x", 1000))
		}
		synctest.Wait()
		if n := read(quick); n != 100 {
			t.Fatalf("got %d events, want 100", n)
		}
		if n := d.Stats().LogBytes; n < 100_000 {
			t.Fatalf("got logs of %d bytes, want 100,000", n)
		}
		time.Sleep(time.Minute + 20*time.Second)
		synctest.Wait()
		if n := d.Stats().LogBytes; n != 0 {
			t.Errorf("got logs of %d bytes a minute after the last event, want none", n)
		}
		m.Put("new", "1")
		synctest.Wait()
		if n := read(quick); n != 1 {
			t.Errorf("got %d events after the old ones were dropped, want 1", n)
		}
		if n := read(slow); n != 101 {
			t.Errorf("the slow watcher got %d events, want 101", n)
		}

		// A resource that is written all the time is never idle.
		for i := range 300 {
			m.Put("often", strings.Repeat("y", 1000))
			time.Sleep(time.Second)
			if i > 100 && d.Stats().LogBytes > 2*(64<<10)+80_000 {
				t.Fatalf("got logs of %d bytes, want about those of a minute", d.Stats().LogBytes)
			}
		}
		if n := read(quick); n != 300 {
			t.Errorf("got %d events, want 300", n)
		}
	})
}
