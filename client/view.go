package client

import (
	"cmp"

	"github.com/tidwall/btree"
)

// view is the state of an informer: the entries by key, and where to find them by
// the values of indexes. A copy costs next to nothing, as trees are copied on write;
// what is published is a copy that nobody changes any more.
type view[T any] struct {
	entries  btree.Map[string, *entry[T]]
	indexes  []*btree.BTreeG[reference]
	items    int // entries that are good
	writes   int // that have led to this view: tells if it is another one
	position Position
}

// reference is the place of an item in an index.
type reference struct{ value, key string }

func newView[T any](indexes int) *view[T] {
	v := &view[T]{}
	for range indexes {
		v.indexes = append(v.indexes, btree.NewBTreeGOptions(func(a, b reference) bool {
			return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.key, b.key)) < 0
		}, btree.Options{NoLocks: true}))
	}
	return v
}

// freeze returns a copy at a position.
func (v *view[T]) freeze(at Position) *view[T] {
	frozen := &view[T]{entries: *v.entries.Copy(), items: v.items, writes: v.writes, position: at}
	for _, index := range v.indexes {
		frozen.indexes = append(frozen.indexes, index.Copy())
	}
	return frozen
}

// get returns the entry of a key, nil if there is none.
func (v *view[T]) get(key string) *entry[T] {
	e, _ := v.entries.Get(key)
	return e
}

// put replaces the entry of a key, and returns the one that was there.
func (v *view[T]) put(key string, e *entry[T]) (old *entry[T]) {
	old, _ = v.entries.Set(key, e)
	v.count(key, old, e)
	return old
}

// remove removes the entry of a key and returns it.
func (v *view[T]) remove(key string) (old *entry[T]) {
	old, _ = v.entries.Delete(key)
	v.count(key, old, nil)
	return old
}

// count keeps what is derived from the entries up to date.
func (v *view[T]) count(key string, old, e *entry[T]) {
	v.writes++
	if old != nil && old.good {
		v.items--
		for i, values := range old.indexed {
			for _, value := range values {
				v.indexes[i].Delete(reference{value, key})
			}
		}
	}
	if e != nil && e.good {
		v.items++
		for i, values := range e.indexed {
			for _, value := range values {
				v.indexes[i].Set(reference{value, key})
			}
		}
	}
}
