package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// eventCost is what an event costs a stream.
type eventCost struct {
	allocations    float64
	entries, ids   int // of the response
	listsOfIDs     int // that were encoded while the events were sent
	watchesTouched int // other than those that the event concerns
}

// costOfEvent starts watches, of one key each or all of the key k/0, and returns what an event of
// k/0 costs.
func costOfEvent(t *testing.T, watches int, shared bool) (cost eventCost) {
	t.Helper()
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		s.together(func() {
			for id := range uint64(watches) {
				key := object.Key("k/0")
				if !shared {
					key = object.Key(fmt.Sprint("k/", id))
				}
				f.watchKey(s, id, key)
			}
		})
		s.take()
		f.store.Put("k/0", "v")
		s.take() // the watches of one key share a cursor, and the list of their ids is encoded
		s.encodings = 0
		restore := s.Hollow(s.watches[0])
		cost.allocations = testing.AllocsPerRun(20, func() {
			f.store.Put("k/0", "v")
			synctest.Wait()
		})
		restore()
		cost.listsOfIDs = s.encodings
		for _, r := range s.take() {
			if len(r.entries) != 1 || len(r.entries[0].message.Events) != 1 {
				t.Fatalf("got %d entries, want one with one event", len(r.entries))
			}
			cost.entries, cost.ids = len(r.entries), len(r.entries[0].ids)
		}
		for id, w := range s.watches {
			if st := w.Status(); id > 0 && !shared && st.Messages != 1 {
				cost.watchesTouched++
			}
		}
	})
	return cost
}

// An event that concerns one of a stream's 10,000 watches costs what it costs with 10. No other
// watch is touched.
func TestStreamEventCostsNothingForOtherWatches(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	few, many := costOfEvent(t, 10, false), costOfEvent(t, 10_000, false)
	if many.allocations > few.allocations+5 {
		t.Errorf("got %v allocations with 10 watches and %v with 10,000", few.allocations, many.allocations)
	}
	few.allocations, many.allocations = 0, 0
	if want := (eventCost{entries: 1, ids: 1, listsOfIDs: few.listsOfIDs}); few != want || many != want {
		t.Errorf("got %+v with 10 watches and %+v with 10,000, want %+v", few, many, want)
	}
}

// An event for 10,000 watches that share a cursor costs one entry. The list of their ids is not
// made again.
func TestStreamEventCostsOneEntryForSharedWatches(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	few, many := costOfEvent(t, 10, true), costOfEvent(t, 10_000, true)
	if many.allocations > few.allocations+5 {
		t.Errorf("got %v allocations with 10 watches and %v with 10,000", few.allocations, many.allocations)
	}
	few.allocations, many.allocations = 0, 0
	if want := (eventCost{entries: 1, ids: 10}); few != want {
		t.Errorf("got %+v with 10 watches, want %+v", few, want)
	}
	if want := (eventCost{entries: 1, ids: 10_000}); many != want {
		t.Errorf("got %+v with 10,000 watches, want %+v", many, want)
	}
}

// An event may need the room of an older one in the logs. The watches of the older event have received
// it, so their stream does nothing.
func TestDroppedSegmentsWakeNoStream(t *testing.T) {
	inBubble(t, limits{logBytes: 8 << 10}, func(t *testing.T, f *fixture) {
		value := strings.Repeat("x", 3<<10)
		quiet, busy := f.stream(t, dispatch.StreamConfig{}), f.stream(t, dispatch.StreamConfig{})
		f.watchKey(quiet, 1, "quiet")
		for id := range uint64(10) {
			f.watchKey(busy, id, object.Key(fmt.Sprint("k/", id)))
		}
		f.store.Put("quiet", value)
		quiet.take()
		busy.take()
		asked := func() (n int) {
			quiet.locked(func() { n = quiet.asked })
			return n
		}
		before := asked()
		for id := range 10 {
			f.store.Put(object.Key(fmt.Sprint("k/", id)), value)
			synctest.Wait()
		}
		if n := f.dispatcher.Stats().Evictions; n < 8 {
			t.Fatalf("the logs have dropped %d segments for others, want at least 8", n)
		}
		if n := asked() - before; n != 0 {
			t.Errorf("the stream of the dropped event looked for something to send %d times, want never", n)
		}
		f.store.Put("quiet", "v")
		quiet.want("1: ~quiet=v")
	})
}
