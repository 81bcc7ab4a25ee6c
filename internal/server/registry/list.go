package registry

import (
	"slices"
	"sync"
)

// List has values in the order of their keys. Values are added in the order of their keys, so a page
// of them costs no more than the page. The zero value of V is no value.
type List[K ~uint32 | ~uint64, V comparable] struct {
	keys   []K
	values []V // the zero value: removed
	holes  int // number of removed values
}

// fewValues is the number of values that Each copies at a time.
const fewValues = 256

// Add adds a value with the highest key so far.
func (l *List[K, V]) Add(k K, v V) { l.keys, l.values = append(l.keys, k), append(l.values, v) }

// At returns the value with the key, or the zero value.
func (l *List[K, V]) At(k K) (v V) {
	if i, ok := slices.BinarySearch(l.keys, k); ok {
		v = l.values[i]
	}
	return v
}

// Remove removes and returns the value with the key. If there is none, it returns the zero value.
func (l *List[K, V]) Remove(k K) (v V) {
	i, ok := slices.BinarySearch(l.keys, k)
	if !ok || l.values[i] == v {
		return v
	}
	v, l.values[i] = l.values[i], v
	if l.holes++; l.holes > 32 && l.holes > len(l.values)/2 {
		*l = l.compact()
	}
	return v
}

// compact returns a list without holes.
func (l *List[K, V]) compact() (c List[K, V]) {
	var removed V
	c.keys, c.values = make([]K, 0, l.Len()), make([]V, 0, l.Len())
	for i, v := range l.values {
		if v != removed {
			c.Add(l.keys[i], v)
		}
	}
	return c
}

// Len returns the number of values.
func (l *List[K, V]) Len() int { return len(l.values) - l.holes }

// Clear removes all values and returns them.
func (l *List[K, V]) Clear() []V {
	all := l.compact().values
	*l = List[K, V]{}
	return all
}

// Each calls a function for the values with the key and higher ones, in the order of their keys, until
// the function returns false. It reports whether the function never did. It copies only a few values
// at a time and does not hold the mutex of the list meanwhile, so others are added and removed.
func (l *List[K, V]) Each(mu sync.Locker, from K, yield func(V) bool) bool {
	few := make([]V, 0, fewValues) // on the stack
	for {
		mu.Lock()
		few, from = l.appendFrom(few[:0], from)
		mu.Unlock()
		for _, v := range few {
			if !yield(v) {
				return false
			}
		}
		if len(few) < fewValues || from == 0 { // 0: there is no higher key
			return true
		}
	}
}

// appendFrom appends the values with the key and higher ones until the slice is full. It returns the
// key from which to continue.
func (l *List[K, V]) appendFrom(few []V, from K) ([]V, K) {
	var removed V
	i, _ := slices.BinarySearch(l.keys, from)
	for ; i < len(l.values) && len(few) < cap(few); i++ {
		if v := l.values[i]; v != removed {
			few, from = append(few, v), l.keys[i]+1
		}
	}
	return few, from
}
