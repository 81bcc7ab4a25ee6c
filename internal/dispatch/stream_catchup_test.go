package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// from returns a beginning after a revision of the present epoch.
func (f *fixture) from(r object.Revision) catchup.Begin {
	return catchup.FromPosition(object.Position{Epoch: f.cacher.State().Position().Epoch, Revision: r})
}

// Catch-ups of each kind lead to live events.
func TestStreamCatchesUp(t *testing.T) {
	inBubble(t, limits{window: 5}, func(t *testing.T, f *fixture) {
		for range 10 {
			f.store.Put("k", "v")
			f.store.Put("l", "v")
		}
		synctest.Wait()
		now := f.cacher.State().Revision()
		s := f.stream(t, dispatch.StreamConfig{})
		for i, test := range []struct {
			begin catchup.Begin
			want  string
		}{
			{catchup.FromSnapshot(0), "RESET; part +k=v +l=v; SYNCED"},
			{f.from(3), "DELTA; part ~k=v ~l=v; SYNCED"},
			{f.from(now - 1), "REPLAY; part ~l=v; SYNCED"},
			{f.from(now), "REPLAY; SYNCED"},
			{catchup.FromExactly(now - 1), "RESET; part +k=v +l=v; SYNCED; REPLAY; part ~l=v; SYNCED"},
			{catchup.FromPosition(object.Position{Epoch: "old", Revision: 3}), "RESET; part +k=v +l=v; SYNCED"},
		} {
			id := uint64(i)
			w := s.begin(f.dispatcher, id, feed.Interest{}, test.begin, dispatch.Options{})
			all := s.take()
			if got := textOf(id, all); got != test.want {
				t.Errorf("watch %d: got %q, want %q", i, got, test.want)
			}
			first := 0
			for _, r := range all {
				for j, e := range r.entries {
					if e.first {
						first++
						if j > 0 {
							t.Errorf("watch %d: entry %d has First", i, j)
						}
					}
				}
			}
			if first != 1 {
				t.Errorf("watch %d: %d entries have First", i, first)
			}
			if st := w.Status(); st.CatchingUp || st.Messages < 2 || st.Backlog.Events != 0 || st.Complete.Revision < now {
				t.Errorf("watch %d: got status %+v", i, st)
			}
		}
		f.store.Put("k", "w")
		s.want("0,1,2,3,4,5: ~k=w")
		lost := s.begin(f.dispatcher, 9, feed.Interest{}, f.from(3), dispatch.Options{EveryEvent: true})
		got := s.take()
		if len(got) != 1 || len(got[0].entries) != 1 || got[0].entries[0].watches[0] != lost {
			t.Fatalf("got %v", got)
		}
		if _, ok := errors.AsType[*catchup.LostError](got[0].entries[0].ended.Reason); !ok {
			t.Errorf("got %v, want a LostError", got[0])
		}
		if s.acquired == 0 || s.acquired != s.released {
			t.Errorf("acquired %d times and released %d times", s.acquired, s.released)
		}
	})
}

// While one watch gets a large snapshot in parts, the events of another one wait for at most one
// part. A small catch-up does not wait for the large one.
func TestStreamSendsLiveEventsBetweenParts(t *testing.T) {
	inBubble(t, limits{messageBytes: 1000}, func(t *testing.T, f *fixture) {
		writes := map[object.Key][]byte{}
		for i := range 4000 {
			writes[object.Key(fmt.Sprintf("large/%04d", i))] = make([]byte, 200)
		}
		f.store.Commit(writes)
		f.store.Put("small/1", "v")
		synctest.Wait()
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "live")
		s.want("1: BOOKMARK")
		s.setRoom(0)
		s.begin(f.dispatcher, 2, feed.Interest{Scope: prefix(t, "large")}, catchup.FromSnapshot(0), dispatch.Options{})
		s.begin(f.dispatcher, 3, feed.Interest{Scope: prefix(t, "small")}, catchup.FromSnapshot(0), dispatch.Options{})
		s.setRoom(2)
		s.take()
		events, small := 0, 0
		for step := 0; events < 4000 && step < 100; step++ {
			if step%2 == 0 {
				f.store.Put("live", "v")
				synctest.Wait()
			}
			s.setRoom(2)
			all := s.take()
			live := false
			for i, r := range all {
				inParts := 0
				for _, e := range r.entries {
					switch {
					case e.ids[0] == 1:
						live = true
					case e.ids[0] == 2:
						events += len(e.message.Events)
						inParts += len(e.message.Events) * 200
					case e.ids[0] == 3 && small == 0:
						small = step*2 + i
					}
				}
				if inParts > 66<<10 {
					t.Errorf("a response has parts of %d bytes", inParts)
				}
			}
			if step%2 == 0 && !live {
				t.Fatalf("step %d: the event is not among %d responses", step, len(all))
			}
		}
		if small > 4 {
			t.Errorf("the small snapshot came with response %d", small)
		}
	})
}

// The parts of a watch that ends are dropped, even if they are made already.
func TestStreamDropsPartsOfAWatchThatEnds(t *testing.T) {
	inBubble(t, limits{messageBytes: 100}, func(t *testing.T, f *fixture) {
		for i := range 3000 {
			f.store.Put(object.Key(fmt.Sprint("k/", i)), "some value")
		}
		synctest.Wait()
		s := f.stream(t, dispatch.StreamConfig{})
		s.setRoom(0)
		for range 5 {
			w := s.begin(f.dispatcher, 1, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{})
			s.setRoom(1)
			s.take()
			s.End(w, dispatch.Ending{})
		}
		s.take()
		f.watchKey(s, 1, "a")
		s.setRoom(-1)
		s.want("1: ended <nil>; 1: BOOKMARK")
		f.watchKey(s, 2, "b")
		s.want("2: BOOKMARK")
		if n := f.dispatcher.Stats().Interests; n != 2 {
			t.Errorf("%d feeds remain, want 2", n)
		}
		if s.acquired != s.released {
			t.Errorf("acquired %d times and released %d times", s.acquired, s.released)
		}
	})
}

// A watch that waits for the slot ends at once. An error of AcquireSlot ends those that wait.
func TestStreamWaitsForTheSlot(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		f.store.Put("k", "v")
		synctest.Wait()
		s := f.stream(t, dispatch.StreamConfig{})
		grant := make(chan error)
		var gaveUp int
		s.acquire = func(ctx context.Context, isNew bool) error {
			if !isNew {
				t.Error("AcquireSlot was called for a watch that has sent something")
			}
			select {
			case err := <-grant:
				return err
			case <-ctx.Done():
				gaveUp++
				return ctx.Err()
			}
		}
		snapshot := func(id uint64) *dispatch.StreamWatch {
			return s.begin(f.dispatcher, id, feed.Interest{}, catchup.FromSnapshot(0), dispatch.Options{})
		}
		w := snapshot(1)
		f.watchKey(s, 2, "live")
		s.want("2: BOOKMARK")
		f.store.Put("live", "v")
		s.want("2: +live=v")
		s.End(w, dispatch.Ending{})
		s.want("1: ended <nil>")
		if gaveUp != 1 {
			t.Error("AcquireSlot still waits although no watch needs it")
		}
		snapshot(1)
		snapshot(3)
		s.want()
		full := errors.New("no slot")
		grant <- full
		s.want("1: refused no slot; 3: refused no slot")
		snapshot(1)
		s.take()
		grant <- nil
		s.want("1: RESET; 1: part +k=v +live=v; 1: SYNCED")
		if s.acquired != 1 || s.released != 1 {
			t.Errorf("acquired %d times and released %d times", s.acquired, s.released)
		}
	})
}

// While large catch-ups wait for the slot, those that need none go on.
func TestStreamCatchesUpOthersWhileLargeCatchUpsWait(t *testing.T) {
	const large = 70 << 10 // more than the parts of a response
	inBubble(t, limits{window: 10}, func(t *testing.T, f *fixture) {
		here := f.store.Put("first", "v")
		for _, key := range []object.Key{"large/1", "large/2", "small/1"} {
			f.store.Put(key, "v")
		}
		for i := range 20 { // the window loses what was before
			f.store.Put("other", strings.Repeat("x", i))
		}
		f.store.Commit(map[object.Key][]byte{"large/1": make([]byte, large), "large/2": make([]byte, large), "small/1": []byte("w")})
		synctest.Wait()
		recent := f.cacher.State().Revision()
		f.store.Put("other/2", "x")
		synctest.Wait()
		s := f.stream(t, dispatch.StreamConfig{})
		grant := make(chan struct{})
		s.acquire = func(ctx context.Context, _ bool) error {
			select {
			case <-grant:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		resume := func(id uint64, key object.Key, at object.Revision) {
			s.begin(f.dispatcher, id, feed.Interest{Scope: object.ExactKey(key)}, f.from(at), dispatch.Options{})
		}
		resume(1, "large/1", here)
		resume(2, "large/2", here)
		s.want()
		resume(3, "small/1", here)
		s.want("3: DELTA; 3: part +small/1=w; 3: SYNCED")
		resume(4, "other/2", recent)
		s.want("4: REPLAY; 4: part +other/2=x; 4: SYNCED")
		close(grant)
		got := s.take()
		for id := range uint64(2) {
			if got := textOf(id+1, got); !strings.HasPrefix(got, "DELTA; part +large/") || !strings.HasSuffix(got, "; SYNCED") || strings.Count(got, "DELTA") != 1 {
				t.Errorf("watch %d got %.40q", id+1, got)
			}
		}
		if s.acquired != 1 || s.released != 1 {
			t.Errorf("acquired %d times and released %d times", s.acquired, s.released)
		}
	})
}

// If the log no longer reaches back to a live watch, the watch gets a REPLAY from the window. If
// the window has lost the events, it gets a DELTA.
func TestStreamCatchesUpALiveWatchThatIsBehind(t *testing.T) {
	inBubble(t, limits{logBytes: 3000, window: 1000}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "a")
		f.watchKey(s, 2, "quiet")
		s.take()
		s.setRoom(0)
		for i := range 100 {
			f.store.Put("a", strings.Repeat("x", 100)+fmt.Sprint(i))
		}
		s.take()
		s.setRoom(-1)
		f.store.Put("a", "last")
		events := 0
		got := s.take()
		for _, r := range got {
			for _, e := range r.entries {
				events += len(e.message.Events)
			}
		}
		if first := got[0].entries[0]; events != 101 || first.String() != "1: REPLAY" {
			t.Errorf("got %d events, and first %v", events, first)
		}
		f.store.Put("a", "v")
		s.want("1: ~a=v")
		f.store.Change(func() { f.store.Quiet = true })
		f.store.Put("a", "1")
		at := f.store.Put("other", "2")
		f.store.Change(func() { f.store.Compacted, f.store.Quiet = at, false })
		f.relist()
		got = s.take()
		if one, two := textOf(1, got), textOf(2, got); one != "DELTA; part ~a=1; SYNCED" || two != "DELTA; SYNCED" {
			t.Errorf("after a relist: got %q and %q", one, two)
		}
	})
}

// A new epoch begins with a RESET.
func TestStreamResetsInANewEpoch(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		for range 10 {
			f.store.Put("other", "1") // so that revisions of the next epoch are smaller
		}
		synctest.Wait()
		s := f.stream(t, dispatch.StreamConfig{})
		f.watchKey(s, 1, "a")
		s.want("1: BOOKMARK")
		f.store.Change(func() { f.store.Down = object.ErrUnavailable })
		synctest.Wait()
		f.store.Restart("e2")
		f.store.Put("a", "new")
		f.store.Change(func() { f.store.Down = nil })
		f.relist()
		if got := textOf(1, s.take()); got != "RESET; part +a=new; SYNCED" {
			t.Errorf("got %q", got)
		}
		f.store.Put("a", "newer")
		s.want("1: ~a=newer")
	})
}

// A revision of which some watches get events, and another watch does not because it has fallen
// behind, comes with the beginning of its catch-up or with its end. Otherwise the client would take
// the watch for live, and show half of the revision.
func TestStreamAnnouncesACatchUpWithTheEventsThatItSkips(t *testing.T) {
	for name, test := range map[string]struct {
		window     int
		everyEvent bool
		want       string
	}{
		"replay":      {window: 1000, want: "1: REPLAY; 2: ~b=v"},
		"delta":       {window: 20, want: "1: DELTA; 2: ~b=v"},
		"every event": {window: 20, everyEvent: true, want: "2: ~b=v; 1: ended revision "},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, limits{logBytes: 3000, window: test.window}, func(t *testing.T, f *fixture) {
				s := f.stream(t, dispatch.StreamConfig{})
				s.begin(f.dispatcher, 1, feed.Interest{Scope: object.ExactKey("a")}, catchup.FromNow(f.cacher.State().Position()),
					dispatch.Options{BatchDelay: time.Minute, EveryEvent: test.everyEvent})
				f.watchKey(s, 2, "b")
				for i := range 100 { // the delay holds those of watch 1 back
					f.store.Put("a", strings.Repeat("x", 100)+fmt.Sprint(i))
					f.store.Put("b", "before")
					s.take()
				}
				s.setRoom(0)
				pass(2 * time.Minute)
				f.store.Commit(map[object.Key][]byte{"a": []byte("v"), "b": []byte("v")})
				s.take()
				s.setRoom(-1)
				if got := s.take(); len(got) == 0 || !strings.HasPrefix(got[0].String(), test.want) {
					t.Errorf("got %v, want a first response %q", got, test.want)
				}
			})
		})
	}
}
