package client

import (
	"fmt"
	"iter"
	"strings"
)

// Lister reads the state of an informer. Each call reads the newest state, and its
// result is of one position. A Lister never waits. Any number of goroutines may use it
// at once, and handlers may, too.
type Lister[T any] struct{ informer *Informer[T] }

// Get returns the item with the key.
func (l Lister[T]) Get(key string) (Item[T], bool) {
	e := l.state().get(key)
	if e == nil || !e.decoded {
		return Item[T]{}, false
	}
	return e.item, true
}

// List returns the items below a path, in order of their keys. The path means the same
// as that of [Prefix]; the empty path stands for all items.
func (l Lister[T]) List(path string) iter.Seq[Item[T]] {
	if path != "" {
		path = strings.TrimSuffix(path, "/") + "/"
	}
	return func(yield func(Item[T]) bool) {
		l.state().entries.Ascend(path, func(key string, e *entry[T]) bool {
			return strings.HasPrefix(key, path) && (!e.decoded || yield(e.item))
		})
	}
}

// ByIndex returns the items that an index lists under a value, in order of their keys.
// It panics if there is no index with this name.
func (l Lister[T]) ByIndex(name, value string) iter.Seq[Item[T]] {
	i := l.informer.indexNumber(name)
	return func(yield func(Item[T]) bool) {
		s := l.state()
		s.indexes[i].Ascend(indexKey{value: value}, func(k indexKey) bool {
			return k.value == value && yield(s.get(k.key).item)
		})
	}
}

// Len returns the number of items.
func (l Lister[T]) Len() int { return l.state().items }

// Position returns the position of the state; it is the zero position while there is
// no state.
func (l Lister[T]) Position() Position { return l.state().position }

// Stale reports whether the state may be out of date. It is false only if the state was current
// at some time since the last interruption of the watch and within the last three bookmark
// intervals ([BookmarkInterval]; at least 10 s). So Stale becomes true within that time when the
// client loses the servers, when the servers lose etcd, or when the informer falls behind,
// whatever the handlers do. It is true before Run, and after Run has returned or the client was
// closed.
func (l Lister[T]) Stale() bool {
	return l.informer.fresh.stale(l.state().asOf) || l.informer.resource.client.open.Err() != nil
}

func (l Lister[T]) state() *state[T] { return l.informer.current.Load() }

// indexNumber returns the place of an index in Informer.indexes.
func (i *Informer[T]) indexNumber(name string) int {
	for n, index := range i.indexes {
		if index.name == name {
			return n
		}
	}
	panic(fmt.Sprintf("client: the informer has no index %q", name))
}
