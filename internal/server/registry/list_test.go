package registry

import (
	"slices"
	"sync"
	"testing"
)

// A list keeps no room for values that were removed, and finds those that are left.
func TestAListHasLittleRoomForRemovedValues(t *testing.T) {
	const values = 5 * fewValues
	var l List[uint32, string]
	for k := range uint32(values) {
		l.Add(k+1, "value")
	}
	var want []uint32
	for k := range uint32(values) {
		if k%7 == 3 {
			want = append(want, k+1)
		} else if l.Remove(k+1) != "value" || l.Remove(k+1) != "" || l.At(k+1) != "" {
			t.Fatalf("value %d was not removed once", k+1)
		}
	}
	if n := len(l.values); n > 2*len(want)+32 || l.Len() != len(want) {
		t.Errorf("the list has room for %d values and says that it has %d, want %d", n, l.Len(), len(want))
	}
	for _, k := range want {
		if l.At(k) != "value" {
			t.Errorf("value %d is lost", k)
		}
	}
	if all := l.Clear(); len(all) != len(want) || slices.Contains(all, "") || l.Len() != 0 {
		t.Errorf("got %d values of the list, want %d", len(all), len(want))
	}
}

// Each ends with the highest key that there can be.
func TestEachEndsWithTheHighestKey(t *testing.T) {
	var l List[uint32, string]
	for k := range uint32(fewValues) {
		l.Add(k-fewValues, "value")
	}
	n := 0
	l.Each(&sync.Mutex{}, 0, func(string) bool { n++; return n < 2*fewValues })
	if n != fewValues {
		t.Errorf("got %d values, want each once", n)
	}
}
