package dispatch_test

import (
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// received returns the revisions of the events in responses, and the number of bookmarks.
func received(responses []response) (events []object.Revision, bookmarks int) {
	for _, r := range responses {
		for _, e := range r.entries {
			if e.ended != nil {
				continue
			}
			for _, ev := range e.message.Events {
				events = append(events, ev.Revision)
			}
			if e.message.Kind == object.Bookmark {
				bookmarks++
			}
		}
	}
	return events, bookmarks
}

// A group whose members are all Watches may be ahead of the round that a worker serves. A Subscribe
// stream that is alone with one watch then, and reads only up to the round, must not join there: nobody
// would send it what is between.
func TestStreamDoesNotJoinBehindItsGroup(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		first := f.gather(t, 1, feed.Interest{Scope: object.ExactKey("0")}, dispatch.Options{})
		f.gather(t, 1, feed.Interest{Scope: object.ExactKey("a")}, dispatch.Options{}).each = func(*member, *feed.Batch) {}
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "a")
		other := f.watchKey(s, 2, "b")
		pass(time.Second)
		s.take()
		var next object.Revision
		first.each = func(*member, *feed.Batch) {
			first.each = func(*member, *feed.Batch) {}
			s.End(other, dispatch.Ending{})
			next = f.store.Put("a", "2")
			pass(time.Second) // the dispatcher publishes it before the worker serves the feed of a
		}
		now := f.store.Commit(map[object.Key][]byte{"0": []byte("1"), "a": []byte("1")})
		pass(time.Minute)
		if got, _ := received(s.take()); len(got) != 2 || got[0] != now || got[1] != next {
			t.Errorf("got the events %v, want %v", got, []object.Revision{now, next})
		}
	})
}

// A member gets its last bookmark also if events were waiting when that was due.
func TestMemberGetsItsLastBookmarkAfterEvents(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		first := f.gather(t, 1, feed.Interest{Scope: object.ExactKey("0")}, dispatch.Options{})
		s := f.stream(t, dispatch.StreamConfig{LastBookmark: time.Now().Add(time.Minute)})
		f.watchKey(s, 1, "a")
		pass(time.Second)
		s.take()
		var at object.Revision
		first.each = func(*member, *feed.Batch) {
			first.each = func(*member, *feed.Batch) {}
			at = f.store.Put("a", "2")
			pass(time.Second) // the dispatcher publishes it before the worker looks at the bookmark
		}
		resume := f.holdWorker()
		pass(time.Minute) // the bookmark is due
		f.store.Put("0", "1")
		pass(time.Second)
		resume()
		pass(time.Minute)
		if events, bookmarks := received(s.take()); len(events) != 1 || events[0] != at || bookmarks != 1 {
			t.Errorf("got the events %v and %d bookmarks, want %d and one", events, bookmarks, at)
		}
	})
}
