package subscribe

import (
	"slices"
	"testing"
)

// fill adds complete watches with the ids and indexes from 1 on.
func fill(t *testing.T, table *table, n int) (all []*watch) {
	t.Helper()
	table.init()
	for range n {
		e := &watch{}
		e.StreamWatch.ID = uint64(len(all) + 1)
		table.add(e)
		if !table.begin(e) {
			t.Fatal("there is no index left")
		}
		all = append(all, e)
	}
	return all
}

// The watches are listed in the order of their indexes, although most others have gone, and come
// and go meanwhile.
func TestWatchesAreListedInOrder(t *testing.T) {
	table := &table{}
	all := fill(t, table, 1280)
	var want []uint32
	for i, e := range all {
		if i%7 == 3 {
			want = append(want, e.Index)
		} else if len(table.remove(&e.StreamWatch)) == 0 {
			t.Fatalf("the table does not have watch %d", e.Index)
		}
	}
	if n := table.len(); n != len(want) {
		t.Errorf("got %d watches, want %d", n, len(want))
	}
	for _, from := range []int{0, 1, len(want) / 2, len(want) - 1} {
		var got []uint32
		table.each(want[from]+1, func(e *watch) bool { got = append(got, e.Index); return true })
		if !slices.Equal(got, want[from+1:]) {
			t.Errorf("got %v after %d, want %v", got, want[from], want[from+1:])
		}
	}
	table.each(0, func(e *watch) bool {
		if e.Index != want[0] {
			t.Fatalf("got watch %d, want %d", e.Index, want[0])
		}
		table.remove(&e.StreamWatch)
		want = want[1:]
		return true
	})
	if len(want) > 0 {
		t.Errorf("the watches %v were not listed while others were removed", want)
	}
}

// A table without watches has none in its counts, and keeps no memory of them.
func TestAnEmptyTableHasNothing(t *testing.T) {
	table := &table{}
	for _, e := range fill(t, table, 100) {
		table.free(e)
		if len(table.remove(&e.StreamWatch)) == 0 || len(table.remove(&e.StreamWatch)) > 0 || table.at(e.Index) != nil || table.find(e.StreamWatch.ID) != nil {
			t.Fatalf("watch %d was not removed once", e.Index)
		}
	}
	if n := table.len(); n != 0 || len(table.clear()) != 0 || !table.each(0, func(*watch) bool { return false }) {
		t.Errorf("got %d watches, want none", n)
	}
}
