package dispatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// The batch of a stream may end before the log does, because the response is full. A watcher of Watch that
// sends the same batch goes on with the rest, and the batch states its age.
func TestABatchOfAStreamMayEndBeforeTheLog(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{ResponseBytes: 1000})
		s.begin(f.dispatcher, 1, feed.Interest{}, catchup.FromNow(f.cacher.State().Position()), dispatch.Options{})
		w := f.polled(t, feed.Interest{}, dispatch.Options{})
		s.want("1: BOOKMARK")
		s.setRoom(0)
		const events = 10
		for i := range events {
			f.store.Commit(map[object.Key][]byte{object.Key(fmt.Sprint("k/", i)): make([]byte, 200)})
		}
		pass(10 * time.Second)
		s.setRoom(1)
		all := s.take()
		if len(all) != 1 || len(all[0].entries) != 1 {
			t.Fatalf("got %v, want one entry", all)
		}
		b, outcome := w.Poll(time.Now())
		if n := len(all[0].entries[0].message.Events); outcome != dispatch.Found || n == 0 || n == events || b.Count != n {
			t.Fatalf("got outcome %d, and %d of %d events, want the batch of the stream with some of them", outcome, n, events)
		}
		if b.Header.Age < 10*time.Second {
			t.Errorf("got an age of %v, want 10s: the client lacks the other events", b.Header.Age)
		}
		if w.NothingFollows(b) {
			t.Errorf("the watcher has got %d of %d events, and does not go on", b.Count, events)
		}
	})
}
