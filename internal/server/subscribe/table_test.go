package subscribe

import (
	"slices"
	"testing"

	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// fill adds complete watches with the ids and indexes from 1 on.
func fill(t *testing.T, table *table, n int) (all []*entry) {
	t.Helper()
	table.init()
	for range n {
		e := &entry{resource: &backend.Resource{Name: "r"}}
		e.StreamWatch.ID = uint64(len(all) + 1)
		table.add(e)
		if !table.markComplete(e) {
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
	all := fill(t, table, 5*fewEntries)
	var want []uint32
	for i, e := range all {
		if i%7 == 3 {
			want = append(want, e.Index)
		} else if !table.remove(e) {
			t.Fatalf("the table does not have watch %d", e.Index)
		}
	}
	if n := table.len(); n != len(want) {
		t.Errorf("got %d watches, want %d", n, len(want))
	}
	if n := len(table.complete); n > 2*len(want)+32 {
		t.Errorf("the table has room for %d watches, and has %d", n, len(want))
	}
	for _, from := range []int{0, 1, len(want) / 2, len(want) - 1} {
		var got []uint32
		for e := range table.after(want[from]) {
			got = append(got, e.Index)
		}
		if !slices.Equal(got, want[from+1:]) {
			t.Errorf("got %v after %d, want %v", got, want[from], want[from+1:])
		}
	}
	for e := range table.after(0) {
		if e.Index != want[0] {
			t.Fatalf("got watch %d, want %d", e.Index, want[0])
		}
		table.remove(e)
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("the watches %v were not listed while others were removed", want)
	}
}

// A table without watches has none in its counts, and keeps no memory of them.
func TestAnEmptyTableHasNothing(t *testing.T) {
	table := &table{}
	for _, e := range fill(t, table, 100) {
		table.free(e)
		if !table.remove(e) || table.remove(e) || table.at(e.Index) != nil || table.find(e.StreamWatch.ID) != nil {
			t.Fatalf("watch %d was not removed once", e.Index)
		}
	}
	if n := table.len(); n != 0 || len(table.clear()) != 0 || slices.Collect(table.after(0)) != nil {
		t.Errorf("got %d watches, want none", n)
	}
}
