package registry

import (
	"slices"
	"sync"
	"testing"
)

// While values come and go, a list is read in order, and those that stay are never missed.
func TestAListIsReadWhileItChanges(t *testing.T) {
	var mu sync.Mutex
	var l List[uint64, uint64]
	const stay, changes = 1000, 2000
	for key := range uint64(stay) {
		l.Set(2*key, 2*key)
	}
	var changing sync.WaitGroup
	for writer := range uint64(2) {
		changing.Go(func() {
			for n := range uint64(changes) {
				odd := 2*((n*7+writer*31)%stay) + 1
				mu.Lock()
				l.Set(odd, odd)
				mu.Unlock()
				mu.Lock()
				l.Delete(odd)
				mu.Unlock()
			}
		})
	}
	for range 20 {
		var even []uint64
		var last uint64
		l.Each(&mu, 100, func(v uint64) bool {
			if v < max(last, 100) {
				t.Errorf("%d comes after %d", v, last)
			}
			if last = v; v%2 == 0 {
				even = append(even, v)
			}
			return true
		})
		if len(even) != stay-50 || !slices.IsSorted(even) {
			t.Errorf("got %d values that stay, want %d", len(even), stay-50)
		}
	}
	changing.Wait()
}
