package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// An event that comes after the worker's last look at the log and before the watch becomes a member of
// its group reaches the watch: every round with an event makes the worker run the group, whether it has
// members or not. Only a test inside the package can hit that moment.
func TestNoEventIsMissedBetweenReadingAndJoining(t *testing.T) {
	bubble(t, feed.Config{}, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
		received := 0
		sink := liveSink{trySend: func() { received++ }, countSent: func(int, time.Time) {}}
		stop := d.serveIn(t, q, 1, sink)
		defer stop()
		g := d.enter(&feed.Interest{}, q) // the group of the watch
		d.exit(g, 1)
		c := g.members[0].cursor
		looked, goOn := make(chan struct{}), make(chan struct{})
		c.stream.post(func(time.Time) {
			c.group.leave(c)
			if b, ok := c.NextBatch(time.Now()); b != nil || !ok {
				t.Error("got an event before it came")
			}
			close(looked)
			<-goOn // then the cursor joins its group again
		})
		<-looked
		at := m.Put("k", "1")
		for d.feeds.DispatchedUpTo.Load().Revision < at {
			time.Sleep(time.Millisecond) // of the bubble
		}
		close(goOn)
		synctest.Wait()
		if received != 1 {
			t.Errorf("got %d events, want one", received)
		}
	})
}
