package tally

import (
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

func TestCounts(t *testing.T) {
	const keys = 2 // event n is change n/2 of key n%2
	for _, c := range []struct {
		name   string
		events []uint64
		want   Counts
	}{
		{"all", []uint64{0, 1, 2, 3}, Counts{Received: 4}},
		{"keys have no order between them", []uint64{1, 3, 0, 2}, Counts{Received: 4}},
		{"one in the middle is lost", []uint64{2, 1, 3}, Counts{Received: 3, Lost: 1}},
		{"the last one is lost", []uint64{0, 1, 2}, Counts{Received: 3, Lost: 1}},
		{"nothing comes", nil, Counts{Lost: 4}},
		{"again", []uint64{0, 1, 0, 2, 3, 3}, Counts{Received: 4, Duplicate: 2}},
		{"the wrong way round", []uint64{2, 0, 1, 3}, Counts{Received: 4, OutOfOrder: 1}},
		{"late, then again", []uint64{2, 0, 0, 1, 3}, Counts{Received: 4, OutOfOrder: 1, Duplicate: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tally := New(keys, []Interest{All(keys)}, 0)
			for _, event := range c.events {
				tally.Receive(0, 0, stamp.Stamp{Event: event}.Value(0), 0)
			}
			if got := tally.Report([]uint32{2, 2}).Counts; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestOfAnotherInterest(t *testing.T) {
	tally := New(4, []Interest{{First: 1, Step: 2, Count: 2}}, 0) // keys 1 and 3
	for _, event := range []uint64{1, 2, 3, 0, 7} {
		tally.Receive(0, 0, stamp.Stamp{Event: event}.Value(0), 0)
	}
	if got, want := tally.Report([]uint32{9, 1, 9, 2}).Counts, (Counts{Received: 3, Foreign: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAnEventIsCompleteWhenAllHaveIt(t *testing.T) {
	tally := New(1, []Interest{All(1), All(1)}, 0)
	one := stamp.Stamp{Event: 0, Written: 5000}.Value(0)
	tally.Receive(0, 0, one, 6000)
	tally.Receive(0, 0, one, 7000) // again
	if n := tally.Completed(); n != 0 {
		t.Errorf("%d events are complete while one watcher has none", n)
	}
	tally.Receive(1, 1, one, 25000)
	if n := tally.Completed(); n != 1 {
		t.Errorf("%d events are complete, want 1", n)
	}
	select {
	case <-tally.Changed():
	default:
		t.Error("nobody was told")
	}
	r := tally.Report([]uint32{1})
	if r.Each.Count != 2 || r.Each.P50 != 1 || r.Each.Max != 20 || r.Last.Count != 1 || r.Last.P50 != 20 {
		t.Errorf("%+v", r)
	}
	tally.Reset()
	if r := tally.Report([]uint32{1}); r.Each.Count != 0 || r.Counts.Received != 2 {
		t.Errorf("after Reset: %+v", r)
	}
}

// Who has seen some changes before misses none of them, and gets none of them again.
func TestWhatWasSeenBefore(t *testing.T) {
	tally := New(1, []Interest{All(1)}, 3)
	for _, event := range []uint64{2, 3} {
		tally.Receive(0, 0, stamp.Stamp{Event: event}.Value(0), 0)
	}
	if got, want := tally.Report([]uint32{5}).Counts, (Counts{Received: 1, Lost: 1, Duplicate: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
