package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// batchesOf returns how many batches of a group the stream has sent.
func (s *testStream) batchesOf() (n int) {
	s.locked(func() { n = s.batches })
	return n
}

// A stream whose watches share one cursor gets the batches of its group, which all members share. With a
// second cursor, the events of a revision leave in one response. When that has ended, the stream gets
// batches again.
func TestStreamWithOneCursorIsAMember(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		s.together(func() {
			f.watchKey(s, 1, "a")
			f.watchKey(s, 2, "a")
		})
		s.want("1,2: BOOKMARK")
		f.store.Put("a", "1")
		s.want("1,2: +a=1")
		if n := s.batchesOf(); n != 1 {
			t.Errorf("the stream has sent %d batches of its group, want 1", n)
		}

		other := f.watchKey(s, 3, "b")
		s.want("3: BOOKMARK")
		f.store.Commit(map[object.Key][]byte{"a": []byte("2"), "b": []byte("2")})
		s.want("1,2: ~a=2; 3: +b=2")
		if n := s.batchesOf(); n != 1 {
			t.Errorf("with a second cursor, the stream has sent %d batches of its group, want none", n-1)
		}

		s.End(other, dispatch.Ending{})
		s.want("3: ended <nil>")
		f.store.Put("a", "3")
		s.want("1,2: ~a=3")
		f.watchKey(s, 4, "a") // joins the cursor
		s.want("4: BOOKMARK")
		f.store.Put("a", "4")
		s.want("1,2,4: ~a=4")
		s.End(s.watches[1], dispatch.Ending{})
		s.want("1: ended <nil>")
		f.store.Put("a", "5")
		s.want("4,2: ~a=5")
		if n := s.batchesOf(); n != 4 {
			t.Errorf("the stream has sent %d batches of its group, want 4", n)
		}
	})
}

// A watch that begins while the group has an event for the member gets it in a response of its own, and
// nothing is lost or repeated.
func TestMemberHasAnEventWhenAnotherWatchBegins(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "a")
		s.want("1: BOOKMARK")
		resume := f.holdWorker()
		f.store.Put("a", "1")
		synctest.Wait()
		f.watchKey(s, 2, "a")
		resume()
		if got := s.take(); textOf(1, got) != "BOOKMARK; +a=1" && textOf(1, got) != "+a=1" || textOf(2, got) != "BOOKMARK" {
			t.Errorf("got responses %v", got)
		}
		f.store.Put("a", "2")
		s.want("1,2: ~a=2")
	})
}

// holdWorker makes the worker wait until the function is called.
func (f *fixture) holdWorker() (resume func()) {
	held := make(chan struct{})
	task := f.workers.NewQueue().NewTask(func(time.Time) { <-held })
	task.Ready()
	synctest.Wait()
	return func() { close(held) }
}

// A watch that has lost its rights gets nothing but its end, though its group had an event for it before.
func TestDeniedMemberGetsNoBatch(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		w := f.watchKey(s, 1, "a")
		s.want("1: BOOKMARK")
		resume := f.holdWorker()
		f.store.Put("a", "1")
		synctest.Wait()
		s.End(w, dispatch.Ending{Deny: true})
		resume()
		s.want("1: ended <nil>")
	})
}

// While a worker sends the batches of a round, the next round begins. A stream that may have several
// watches gets nothing of it before the worker has marked the others.
func TestMembersOfSubscribeStopAtTheBound(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		watch := f.gather(t, 1, feed.Interest{Scope: object.ExactKey("a")}, dispatch.Options{})
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "b")
		s.want("1: BOOKMARK")
		watch.each = func(*member, *feed.Batch) {
			watch.each = func(*member, *feed.Batch) {}
			f.store.Commit(map[object.Key][]byte{"a": []byte("2"), "b": []byte("2")})
			pass(time.Second) // the dispatcher takes the round
		}
		f.store.Commit(map[object.Key][]byte{"a": []byte("1"), "b": []byte("1")})
		pass(2 * time.Second)
		s.want("1: +b=1", "1: ~b=2")
	})
}

// The batches of a group may be larger than what a response has room for, or split a revision. The stream
// then cuts the events by itself.
func TestMemberCutsLargeRevisionsItself(t *testing.T) {
	inBubble(t, limits{messageBytes: 100}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{ResponseBytes: 100})
		s.begin(f.dispatcher, 1, feed.Interest{}, catchup.FromNow(f.cacher.State().Position()), dispatch.Options{})
		s.want("1: BOOKMARK")
		f.store.Commit(map[object.Key][]byte{"a": make([]byte, 50), "b": make([]byte, 50), "c": make([]byte, 50)})
		all := s.take()
		for i, r := range all {
			if last := i == len(all)-1; r.more == last {
				t.Errorf("response %d of %d has more: %v", i, len(all), r.more)
			}
		}
		if n := s.batchesOf(); n != 0 || len(all) < 2 {
			t.Errorf("got %d responses and %d batches of the group, want several responses and no batch", len(all), n)
		}
	})
}

// A watch of a resource without a cache is another watch of the stream.
func TestDirectWatchEndsMembership(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		w := f.watchKey(s, 1, "a")
		s.want("1: BOOKMARK")
		if !w.IsMember() {
			t.Error("the only watch of the stream is no member of its group")
		}
		s.StartDirect(&dispatch.StreamWatch{ID: 2}, silent{})
		synctest.Wait()
		if w.IsMember() {
			t.Error("a watch is a member of its group although the stream has another one")
		}
		f.store.Put("a", "1")
		s.want("1: +a=1")
	})
}

// silent is a reader of a resource without a cache that has no messages.
type silent struct{}

func (silent) Await(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (silent) Next(ctx context.Context) (feed.Message, error) { return feed.Message{}, ctx.Err() }

func (silent) CatchesUp() bool           { return false }
func (silent) ReadsSnapshot() bool       { return false }
func (silent) Position() object.Position { return object.Position{} }
func (silent) Close()                    {}

func (silent) Quiet(object.Position, object.Revision) bool { return false }
