package delivery

import (
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

func TestCounterSortsEventsByOutcome(t *testing.T) {
	const keys = 2 // event n is change n/2 of key n%2
	for _, c := range []struct {
		name   string
		events []uint64
		want   Counts
	}{
		{"all arrive", []uint64{0, 1, 2, 3}, Counts{Received: 4}},
		{"keys have no order between them", []uint64{1, 3, 0, 2}, Counts{Received: 4}},
		{"a middle event is lost", []uint64{2, 1, 3}, Counts{Received: 3, Lost: 1}},
		{"the last event is lost", []uint64{0, 1, 2}, Counts{Received: 3, Lost: 1}},
		{"nothing arrives", nil, Counts{Lost: 4}},
		{"duplicates", []uint64{0, 1, 0, 2, 3, 3}, Counts{Received: 4, Duplicate: 2}},
		{"out of order", []uint64{2, 0, 1, 3}, Counts{Received: 4, OutOfOrder: 1}},
		{"late, then duplicate", []uint64{2, 0, 0, 1, 3}, Counts{Received: 4, OutOfOrder: 1, Duplicate: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			counter := NewCounter(keys, []Interest{All(keys)}, 0)
			for _, event := range c.events {
				counter.Receive(0, stamp.Stamp{Event: event}.Value(0), 0, 0)
			}
			if got := counter.Report([]uint32{2, 2}).Counts; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestEventsOutsideTheInterestAreForeign(t *testing.T) {
	counter := NewCounter(4, []Interest{{First: 1, Step: 2, Count: 2}}, 0) // keys 1 and 3
	for _, event := range []uint64{1, 2, 3, 0, 7} {
		counter.Receive(0, stamp.Stamp{Event: event}.Value(0), 0, 0)
	}
	if got, want := counter.Report([]uint32{9, 1, 9, 2}).Counts, (Counts{Received: 3, Foreign: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEventIsCompletedByItsLastWatcher(t *testing.T) {
	counter := NewCounter(1, []Interest{All(1), All(1)}, 0)
	message := stamp.Stamp{Event: 0, Written: 5000}.Value(0)
	counter.Receive(0, message, 6000, 0)
	counter.Receive(0, message, 7000, 0) // a duplicate
	if got := counter.Completed(); got != 0 {
		t.Errorf("before the second watcher receives the event: got %d completed events, want 0", got)
	}
	counter.Receive(1, message, 25000, 1)
	if got := counter.Completed(); got != 1 {
		t.Errorf("after both watchers received the event: got %d completed events, want 1", got)
	}
	select {
	case <-counter.Changed():
	default:
		t.Error("Changed received nothing, want a value")
	}
	r := counter.Report([]uint32{1})
	if r.Each.Count != 2 || r.Each.P50 != 1 || r.Each.Max != 20 || r.Last.Count != 1 || r.Last.P50 != 20 {
		t.Errorf("got latencies %+v and %+v, want 1 and 20 µs at each watcher, and 20 µs at the last one", r.Each, r.Last)
	}
	counter.Reset()
	if r := counter.Report([]uint32{1}); r.Each.Count != 0 || r.Counts.Received != 2 {
		t.Errorf("after Reset: got %d latencies and %d received events, want 0 and 2", r.Each.Count, r.Counts.Received)
	}
}

// Changes that a watcher has already seen are not lost if they do not arrive, and are
// duplicates if they do.
func TestSeenChangesAreNotExpected(t *testing.T) {
	counter := NewCounter(1, []Interest{All(1)}, 3)
	for _, event := range []uint64{2, 3} {
		counter.Receive(0, stamp.Stamp{Event: event}.Value(0), 0, 0)
	}
	if got, want := counter.Report([]uint32{5}).Counts, (Counts{Received: 1, Lost: 1, Duplicate: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
