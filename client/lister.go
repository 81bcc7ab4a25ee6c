package client

import (
	"fmt"
	"iter"
	"strings"
)

// Lister reads the state of an informer. Every call reads the newest state, and
// what it returns is of one position. It may be used by several goroutines at once,
// and from handlers; it waits for nobody.
type Lister[T any] struct{ informer *Informer[T] }

// Get returns the item with the key.
func (l Lister[T]) Get(key string) (Item[T], bool) {
	e := l.view().get(key)
	if e == nil || !e.good {
		return Item[T]{}, false
	}
	return e.item, true
}

// List returns the items below a path, in order of their keys, as [Prefix] selects
// them. The empty path stands for all.
func (l Lister[T]) List(path string) iter.Seq[Item[T]] {
	if path != "" {
		path = strings.TrimSuffix(path, "/") + "/"
	}
	return func(yield func(Item[T]) bool) {
		l.view().entries.Ascend(path, func(key string, e *entry[T]) bool {
			return strings.HasPrefix(key, path) && (!e.good || yield(e.item))
		})
	}
}

// ByIndex returns the items that an index has under a value, in order of their keys.
// It panics if there is no such index.
func (l Lister[T]) ByIndex(name, value string) iter.Seq[Item[T]] {
	i := l.informer.indexNamed(name)
	return func(yield func(Item[T]) bool) {
		v := l.view()
		v.indexes[i].Ascend(reference{value: value}, func(r reference) bool {
			return r.value == value && yield(v.get(r.key).item)
		})
	}
}

// Len returns the number of items.
func (l Lister[T]) Len() int { return l.view().items }

// Position returns where the state is of. It is the zero position while there is
// none.
func (l Lister[T]) Position() Position { return l.view().position }

// Stale reports whether the state may be older than it should be: because no server
// has confirmed it yet, or the watch is interrupted.
func (l Lister[T]) Stale() bool { return l.informer.stale.Load() }

func (l Lister[T]) view() *view[T] { return l.informer.current.Load() }

// indexNamed returns the place of an index.
func (i *Informer[T]) indexNamed(name string) int {
	for at, index := range i.indexes {
		if index.name == name {
			return at
		}
	}
	panic(fmt.Sprintf("client: the informer has no index %q", name))
}
