package dispatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// A watch that begins now shares the cursor of the live watch of the same interest from its
// beginning, even while the stream has no room. Its first message comes before the events of both.
func TestStreamWatchJoinsALiveOne(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		first := f.watchKey(s, 1, "k")
		f.store.Put("k", "1")
		s.take()
		s.setRoom(0)
		f.store.Put("other", "1")
		synctest.Wait()
		second, third := f.watchKey(s, 2, "k"), f.watchKey(s, 3, "k")
		synctest.Wait()
		if second.Shared() != first.Shared() || third.Shared() != first.Shared() {
			t.Error("a watch has a cursor of its own")
		}
		now := f.cacher.State().Position()
		f.store.Put("k", "2")
		synctest.Wait()
		fourth := f.watchKey(s, 4, "k") // the event comes before its beginning
		synctest.Wait()
		if fourth.Shared() == first.Shared() {
			t.Error("a watch shares a cursor that has an event from before its beginning")
		}
		s.setRoom(-1)
		s.want("2,3: BOOKMARK; 1,2,3: ~k=2; 4: BOOKMARK")
		if at := second.Status(); at.Messages != 2 || at.Bytes == 0 || first.Status().Messages != 3 {
			t.Errorf("got %+v after two messages, and %+v after three", at, first.Status())
		}
		if at := second.MayHave(); at.Epoch != now.Epoch || at.Revision != now.Revision+1 {
			t.Errorf("the client may have %v, want the event after %v", at, now)
		}
		f.store.Put("k", "3")
		s.want("1,2,3,4: ~k=3")
	})
}

// A watch that resumes joins the live one if there is no event between its position and the present.
func TestStreamWatchJoinsALiveOneAtAPosition(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		resume := func(id uint64, p object.Position) *dispatch.StreamWatch {
			return s.begin(f.dispatcher, id, feed.Interest{Scope: object.ExactKey("k")}, catchup.FromPosition(p), dispatch.Options{})
		}
		first := f.watchKey(s, 1, "k")
		s.take()
		tooOld := f.cacher.State().Position()
		f.store.Put("k", "1")
		s.take()
		before := f.cacher.State().Position()
		f.store.Put("other", "1")
		s.take()
		s.setRoom(0)
		second, third := resume(2, before), resume(3, tooOld)
		synctest.Wait()
		if second.Shared() != first.Shared() {
			t.Error("a watch without events has a cursor of its own")
		}
		if third.Shared() == first.Shared() {
			t.Error("a watch shares a cursor that has sent an event before it")
		}
		f.store.Put("k", "2")
		synctest.Wait()
		s.setRoom(-1)
		got := s.take()
		for id, want := range map[uint64]string{
			1: "~k=2",
			2: "REPLAY; SYNCED; ~k=2",
			3: "REPLAY; part +k=1 ~k=2; SYNCED",
		} {
			if text := textOf(id, got); text != want {
				t.Errorf("watch %d: got %q, want %q", id, text, want)
			}
		}
		for _, r := range got {
			for _, e := range r.entries {
				if p := e.message.Position; e.ids[0] == 2 && e.first && p != before {
					t.Errorf("the REPLAY begins at %v, want %v", p, before)
				}
			}
		}
	})
}

// A watch that ends before its first message gets only its end, with the position of its beginning.
func TestStreamEndsAWatchThatHasJoined(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "k")
		s.take()
		f.store.Put("other", "1")
		s.take()
		s.setRoom(0)
		now := f.cacher.State().Position()
		denied, last := f.watchKey(s, 2, "k"), f.watchKey(s, 3, "k")
		synctest.Wait()
		s.End(denied, dispatch.Ending{Deny: true})
		s.End(last, dispatch.Ending{Last: true})
		synctest.Wait()
		f.watchKey(s, 2, "k")
		s.setRoom(-1)
		got := s.take()
		if want := "2: ended <nil>; 3: DRAINING; 3: ended <nil>; 2: BOOKMARK"; len(got) != 1 || got[0].String() != want {
			t.Fatalf("got %v, want %q", got, want)
		}
		if p := got[0].entries[1].message.Position; p != now {
			t.Errorf("the watch that drains resumes at %v, want %v", p, now)
		}
	})
}

// While Serve sends a response, its messages are not counted, so a watch does not join.
func TestStreamCountsTheMessagesOfAWatchThatBeginsAfterAnUnsentOne(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "k")
		s.take()
		goOn := make(chan struct{})
		s.locked(func() {
			s.try = func(*dispatch.Response) error { return dispatch.ErrNeedsServe }
			s.send = func(*dispatch.Response) error { <-goOn; return nil }
		})
		f.store.Put("k", "1")
		synctest.Wait()
		second := f.watchKey(s, 2, "k")
		synctest.Wait()
		s.locked(func() { s.try = nil })
		close(goOn)
		s.want("1: +k=1", "2: BOOKMARK")
		if n := second.Status().Messages; n != 1 {
			t.Errorf("got %d messages, want 1", n)
		}
	})
}

// 10,000 starts of one interest make one cursor, whether they come together or one after another, and
// the first messages of all that come together leave in one entry.
func TestStreamStartsShareACursor(t *testing.T) {
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprintf("live=%v", live), func(t *testing.T) {
			inBubble(t, limits{}, func(t *testing.T, f *fixture) {
				const starts = 10_000
				s := f.stream(t, dispatch.StreamConfig{})
				if live {
					f.watchKey(s, starts, "k")
					s.take()
				}
				s.setRoom(0)
				synctest.Wait()
				id := uint64(0)
				allocations := testing.AllocsPerRun(starts-1, func() {
					f.watchKey(s, id, "k")
					synctest.Wait()
					id++
				})
				// The watch itself, its place in the map of the test, and the function that the worker calls.
				if allocations > 10 {
					t.Errorf("a start costs %v allocations", allocations)
				}
				shared := map[any]bool{}
				for _, w := range s.watches {
					shared[w.Shared()] = true
				}
				if len(shared) != 1 {
					t.Errorf("the watches have %d cursors", len(shared))
				}
				s.setRoom(-1)
				got := s.take()
				if len(got) != 1 || len(got[0].entries) != 1 || len(got[0].entries[0].ids) != starts {
					t.Errorf("got %d responses, want one with one entry", len(got))
				}
			})
		})
	}
}
