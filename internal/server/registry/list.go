package registry

import (
	"sync"

	"github.com/tidwall/btree"
)

// List has values in the order of their keys.
type List[K ~uint32 | ~uint64, V any] struct{ btree.Map[K, V] }

// Each calls a function for the values with the key and higher ones, in the order of their keys, until
// the function returns false. It reports whether the function never did. It does not hold the mutex of
// the list meanwhile, so others are added and removed: Each calls the function for the values that the
// list has at the beginning.
func (l *List[K, V]) Each(mu sync.Locker, from K, yield func(V) bool) bool {
	mu.Lock()
	all := l.Copy() // both share their nodes until one changes
	mu.Unlock()
	more := true
	all.Ascend(from, func(_ K, v V) bool {
		more = yield(v)
		return more
	})
	return more
}
