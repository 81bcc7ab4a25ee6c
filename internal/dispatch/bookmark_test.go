package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// A bookmark of a quiet watcher passes an unrelated write within two intervals. The moment of
// the write within the interval does not matter.
func TestBookmarkableWithinTwoIntervals(t *testing.T) {
	const interval = 200 * time.Millisecond
	elsewhere := map[string]func(*fixture) object.Revision{
		"in another resource": func(f *fixture) object.Revision { return f.store.Commit(nil) },
		"in another folder":   func(f *fixture) object.Revision { return f.store.Put("busy/k", "1") },
	}
	for name, write := range elsewhere {
		for _, latest := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{})
				w := f.watchWith(t, feed.Interest{Scope: prefix(t, "quiet")}, catchup.FromNow(f.cacher.State().Position()),
					dispatch.Options{BookmarkInterval: interval, Latest: latest})
				w.next(t, object.Bookmark)
				for into := time.Duration(0); into < interval; into += interval / 8 {
					w.next(t, object.Bookmark)
					time.Sleep(into)
					written, at := time.Now(), write(f)
					for w.next(t, object.Bookmark).Position.Revision < at {
					}
					if took := time.Since(written); took > 2*interval {
						t.Errorf("write %s, %v into an interval: the bookmark came after %v", name, into, took)
					}
				}
			})
		}
	}
}

// A watch may begin at a state that the dispatcher has not reached. Its last bookmark then has the
// position of the first one, and not an earlier one.
func TestLastBookmarkIsNotBeforeTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		ahead := f.cacher.State().Position()
		ahead.Revision += 10
		w := f.watchWith(t, feed.Interest{}, catchup.FromNow(ahead), dispatch.Options{BookmarkInterval: time.Second, LastBookmark: time.Now()})
		for range 2 {
			if got := w.next(t, object.Bookmark).Position; got != ahead {
				t.Errorf("got a bookmark at %v, want %v", got, ahead)
			}
		}
	})
}
