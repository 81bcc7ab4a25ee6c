package dispatch_test

import (
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Silent watches share one bookmark, within their interval. A watch that got an event needs none.
func TestStreamSendsBookmarksToSilentWatches(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		s.together(func() {
			for id, key := range []object.Key{"a", "b", "c"} {
				i := feed.Interest{Scope: object.ExactKey(key)}
				s.begin(f.dispatcher, uint64(id), i, catchup.FromNow(f.cacher.State().Position()), dispatch.Options{BookmarkInterval: 10 * time.Second})
			}
		})
		s.want("0: BOOKMARK; 1: BOOKMARK; 2: BOOKMARK")
		pass(4 * time.Second)
		f.store.Put("a", "v")
		s.want("0: +a=v")
		pass(2 * time.Second)
		s.want("1,2: BOOKMARK")
	})
}

// A watch ends at its time, unless it has ended earlier.
func TestStreamEndsAWatchAtItsTime(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		late, early, stopped := f.watchKey(s, 1, "a"), f.watchKey(s, 2, "b"), f.watchKey(s, 3, "c")
		s.EndAt(late, time.Now().Add(20*time.Second), dispatch.Ending{Last: true})
		s.EndAt(early, time.Now().Add(10*time.Second), dispatch.Ending{Last: true})
		s.EndAt(stopped, time.Now().Add(5*time.Second), dispatch.Ending{Last: true})
		s.take()
		s.End(stopped, dispatch.Ending{})
		s.want("3: ended <nil>")
		pass(9 * time.Second)
		s.want()
		pass(2 * time.Second)
		s.want("2: DRAINING; 2: ended <nil>")
		pass(10 * time.Second)
		s.want("1: DRAINING; 1: ended <nil>")
	})
}

// If the sink needs a sender that may wait, Serve sends the same response, and the worker makes no
// other one meanwhile.
func TestStreamSendsByServe(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "a")
		s.take()
		goOn := make(chan struct{})
		s.locked(func() {
			s.try = func(*dispatch.Response) error { return dispatch.ErrNeedsServe }
			s.send = func(*dispatch.Response) error { <-goOn; return nil }
		})
		f.store.Put("a", "1")
		s.want()
		f.store.Put("a", "2")
		s.want()
		s.locked(func() { s.try = nil })
		close(goOn)
		s.want("1: +a=1", "1: ~a=2")
	})
}
