package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// A transaction over 64 keys, each with a watch of its own, arrives in one response.
func TestStreamSendsARevisionInOneResponse(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		const keys = 64
		s := f.stream(t, dispatch.StreamConfig{})
		writes := map[object.Key][]byte{}
		for i := range keys {
			key := object.Key(fmt.Sprint("k/", i))
			writes[key] = []byte("v")
			f.watchKey(s, uint64(i), key)
		}
		s.take()
		for range 3 {
			f.store.Commit(writes)
			got := s.take()
			if len(got) != 1 || len(got[0].entries) != keys || got[0].more {
				t.Fatalf("got responses %v, want one with %d entries", got, keys)
			}
		}
	})
}

// A revision that does not fit into a response leaves in consecutive responses. Nothing beyond it
// leaves earlier.
func TestStreamMarksARevisionThatDoesNotFit(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{ResponseBytes: 400})
		writes := map[object.Key][]byte{}
		for id := range uint64(4) {
			key := object.Key(fmt.Sprint("k/", id))
			writes[key] = make([]byte, 80)
			f.watchKey(s, id, key)
		}
		s.take()
		s.setRoom(0)
		f.store.Commit(writes)
		f.store.Put("k/0", "later")
		s.take()
		s.setRoom(-1)
		got := s.take()
		var more []bool
		events := 0
		for _, r := range got {
			more = append(more, r.more)
			for _, e := range r.entries {
				events += len(e.message.Events)
			}
		}
		if events != 5 || fmt.Sprint(more) != "[true false false]" {
			t.Errorf("got %d events and responses %v with more = %v", events, got, more)
		}
		if n := len(got); n > 0 && got[n-1].String() != "0: ~k/0=later" {
			t.Errorf("got last response %v", got[n-1])
		}
	})
}

// A revision that has more events for one watch than fit into a response leaves in partial
// messages.
func TestStreamSplitsARevisionOfOneWatch(t *testing.T) {
	for _, latest := range []bool{false, true} {
		inBubble(t, limits{}, func(t *testing.T, f *fixture) {
			s := f.stream(t, dispatch.StreamConfig{ResponseBytes: 300})
			s.begin(f.dispatcher, 1, feed.Interest{}, catchup.FromNow(f.cacher.State().Position()), dispatch.Options{Latest: latest})
			s.take()
			writes := map[object.Key][]byte{}
			for i := range 7 {
				writes[object.Key(fmt.Sprint("k/", i))] = make([]byte, 80)
			}
			f.store.Commit(writes)
			got := s.take()
			events := 0
			for i, r := range got {
				if last := i == len(got)-1; r.more == last || len(r.entries) != 1 || r.entries[0].message.Partial == last {
					t.Errorf("got response %d of %d: %v", i, len(got), r)
				}
				events += len(r.entries[0].message.Events)
			}
			if events != 7 || len(got) < 3 {
				t.Errorf("got %d events in %d responses", events, len(got))
			}
			f.store.Put("k/0", "v")
			s.want("1: ~k/0=v")
		})
	}
}

// If the rest of a revision disappears, a response without More ends the sequence.
func TestStreamEndsASequence(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{ResponseBytes: 200})
		one, two := f.watchKey(s, 1, "a"), f.watchKey(s, 2, "b")
		s.take()
		s.setRoom(1)
		f.store.Commit(map[object.Key][]byte{"a": make([]byte, 90), "b": make([]byte, 90)})
		got := s.take()
		if len(got) != 1 || !got[0].more || len(got[0].entries) != 1 {
			t.Fatalf("got %v, want half of the revision", got)
		}
		rest := two
		if got[0].entries[0].ids[0] == 2 {
			rest = one
		}
		s.End(rest, dispatch.Ending{})
		s.setRoom(-1)
		s.want(fmt.Sprintf("%d: ended <nil>", rest.ID))
	})
}

// A watch that resumes gets the events of the log as a REPLAY.
func TestStreamResumesFromTheLog(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "a") // keeps the feed
		s.want("1: BOOKMARK")
		f.store.Put("other", "1")
		at := f.store.Put("a", "1")
		s.want("1: +a=1")
		f.store.Put("a", "2")
		f.store.Put("a", "3")
		s.take()
		from := func(r object.Revision) catchup.Begin {
			return catchup.FromPosition(object.Position{Epoch: f.cacher.State().Position().Epoch, Revision: r})
		}
		a := feed.Interest{Scope: object.ExactKey("a")}
		s.begin(f.dispatcher, 2, a, from(at), dispatch.Options{})
		s.want("2: REPLAY; 2: part ~a=2 ~a=3; 2: SYNCED")
		s.begin(f.dispatcher, 3, a, from(at+2), dispatch.Options{})
		s.want("3: REPLAY; 3: SYNCED")
		f.store.Put("a", "4")
		s.want("1,2,3: ~a=4")
	})
}

// A watch that begins at a position gets the events that were dispatched between this position and
// its start, although the worker has heard of no round since.
func TestStreamMissesNoEventBeforeItsStart(t *testing.T) {
	for name, begin := range map[string]func(object.Position) catchup.Begin{"from now": catchup.FromNow, "from a position": catchup.FromPosition} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, limits{}, func(t *testing.T, f *fixture) {
				s := f.stream(t, dispatch.StreamConfig{})
				f.watchKey(s, 1, "other")
				s.want("1: BOOKMARK")
				a := feed.Interest{Scope: object.ExactKey("a")}
				others := sendqueue.Start(1) // another worker
				t.Cleanup(others.Stop)
				keepsLog := f.dispatcher.Pull(others.NewQueue(), a, catchup.FromNow(f.cacher.State().Position()), dispatch.Options{})
				t.Cleanup(keepsLog.Close)
				at := f.cacher.State().Position()
				f.store.Put("a", "v")
				s.want()
				s.begin(f.dispatcher, 2, a, begin(at), dispatch.Options{})
				events := 0
				for _, r := range s.take() {
					for _, e := range r.entries {
						events += len(e.message.Events)
					}
				}
				if events != 1 {
					t.Errorf("got %d events, want 1", events)
				}
			})
		})
	}
}

// Refusals and ends are answered in the order of the calls.
func TestStreamAnswers(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		bad, lost := errors.New("bad"), errors.New("lost")
		one, two := f.watchKey(s, 1, "a"), f.watchKey(s, 2, "b")
		s.take()
		s.setRoom(0)
		s.Refuse(7, bad)
		s.End(two, dispatch.Ending{Reason: lost, Last: true, ResumeAtOnce: true})
		s.End(two, dispatch.Ending{Last: true})
		s.End(one, dispatch.Ending{})
		never := &dispatch.StreamWatch{ID: 9}
		s.End(never, dispatch.Ending{Reason: lost})
		if n := s.Answers(); n != 4 {
			t.Errorf("got %d answers, want 4", n)
		}
		synctest.Wait()
		s.setRoom(-1)
		got := s.take()
		if len(got) != 1 || got[0].String() != "7: refused bad; 2: DRAINING; 2: ended lost; 1: ended <nil>; 9: ended lost" {
			t.Fatalf("got %v", got)
		}
		if e := got[0].entries; e[0].refused != bad || e[2].watches[0] != two || e[4].watches[0] != never || !e[1].message.ResumeAtOnce {
			t.Errorf("got %+v", e)
		}
		if n := s.Answers(); n != 0 {
			t.Errorf("got %d answers, want none", n)
		}
		f.store.Commit(map[object.Key][]byte{"a": {}, "b": {}})
		s.want()
	})
}

// A watch that is stopped and started again with the same id never mixes the messages of both.
func TestStreamKeepsWatchesOfOneIDApart(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		old := f.watchKey(s, 1, "a")
		s.want("1: BOOKMARK")
		s.setRoom(0)
		f.store.Commit(map[object.Key][]byte{"a": []byte("1"), "b": []byte("1")})
		s.take()
		s.End(old, dispatch.Ending{})
		middle := f.watchKey(s, 1, "c")
		s.End(middle, dispatch.Ending{})
		f.watchKey(s, 1, "b")
		s.take()
		f.store.Put("b", "2")
		s.take()
		s.setRoom(-1)
		s.want("1: ended <nil>; 1: ended <nil>; 1: BOOKMARK", "1: ~b=2")
		f.store.Put("a", "2")
		f.store.Put("c", "2")
		s.want()
	})
}

// A stream whose sink has no room makes nothing. An event costs nothing but a mark.
func TestStreamWithoutRoomDoesNothing(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "a")
		s.want("1: BOOKMARK")
		s.setRoom(0)
		f.store.Put("a", "0")
		s.take()
		asked := s.asked
		for range 10 {
			f.store.Put("a", "1")
			s.take()
		}
		if s.asked != asked {
			t.Errorf("the sink was asked %d times for room, want 0", s.asked-asked)
		}
		if st := s.watches[1].Status(); !st.Waiting || st.Backlog.Events != 11 {
			t.Errorf("got status %+v", st)
		}
		s.setRoom(1)
		got := s.take()
		if len(got) != 1 || len(got[0].entries[0].message.Events) != 11 {
			t.Errorf("got %v, want one response with 11 events", got)
		}
	})
}

// The stream ends when the last watch has ended, or with the error that ends it.
func TestStreamEnds(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		finished := f.stream(t, dispatch.StreamConfig{})
		w := f.watchKey(finished, 1, "a")
		finished.Finish()
		finished.want("1: BOOKMARK")
		finished.End(w, dispatch.Ending{})
		<-finished.done
		finished.want("1: ended <nil>")
		if finished.err != nil {
			t.Errorf("Serve returned %v", finished.err)
		}
		finished.Refuse(2, errors.New("late"))
		f.watchKey(finished, 3, "a")
		finished.End(finished.watches[3], dispatch.Ending{})
		finished.want()

		drained := f.stream(t, dispatch.StreamConfig{})
		drained.together(func() {
			for id := range uint64(3) {
				f.watchKey(drained, id, object.Key(fmt.Sprint(id)))
			}
		})
		drained.want("0: BOOKMARK; 1: BOOKMARK; 2: BOOKMARK")
		bye := errors.New("bye")
		drained.EndAll(dispatch.Ending{Reason: bye, Last: true})
		<-drained.done
		drained.want("0,1,2: DRAINING; 0,1,2: ended bye")
		if drained.err != nil {
			t.Errorf("Serve returned %v", drained.err)
		}

		failed := f.stream(t, dispatch.StreamConfig{})
		broken := errors.New("broken")
		failed.locked(func() { failed.try = func(*dispatch.Response) error { return broken } })
		f.watchKey(failed, 1, "a")
		<-failed.done
		if failed.err != broken {
			t.Errorf("Serve returned %v", failed.err)
		}

		aborted := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(aborted, 1, "a")
		aborted.Abort(bye)
		aborted.Abort(broken)
		<-aborted.done
		if aborted.err != bye {
			t.Errorf("Serve returned %v", aborted.err)
		}
		if n := f.dispatcher.Stats().Interests; n != 0 {
			t.Errorf("%d feeds remain", n)
		}
	})
}

// A stream that has ended lets its reader read no more requests, even if Serve has not returned yet.
func TestStreamThatHasEndedAwaitsNoAnswers(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		sending, sent := make(chan struct{}), make(chan struct{})
		s.locked(func() {
			s.try = func(*dispatch.Response) error { return dispatch.ErrNeedsServe }
			s.send = func(*dispatch.Response) error {
				close(sending)
				<-sent
				return nil
			}
		})
		f.watchKey(s, 1, "a")
		<-sending
		if err := s.AwaitAnswers(t.Context(), 1); err != nil {
			t.Errorf("got %v while the stream serves, want no error", err)
		}
		s.Abort(errors.New("bye"))
		if err := s.AwaitAnswers(t.Context(), 1); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v after Abort, want %v", err, context.Canceled)
		}
		close(sent)
		<-s.done
		if err := s.AwaitAnswers(t.Context(), 1); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v after Serve, want %v", err, context.Canceled)
		}
	})
}

// The watches of a dispatcher that stops end with their positions.
func TestStreamEndsTheWatchesOfAStoppedDispatcher(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "a")
		s.want("1: BOOKMARK")
		f.stop()
		s.want("1: DRAINING; 1: ended dispatch has stopped")
		f.watchKey(s, 2, "a")
		s.want("2: DRAINING; 2: ended dispatch has stopped")
	})
}
