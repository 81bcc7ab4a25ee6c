package client

import (
	"bytes"
	"cmp"
	"maps"
	"time"

	"github.com/tidwall/btree"
)

// state is the content of an informer: entries by key, and the indexes over them.
// Copies are cheap because the trees are copied on write. A state that an informer has
// published never changes.
type state[T any] struct {
	entries  btree.Map[string, *entry[T]]
	indexes  []*btree.BTreeG[indexKey]
	items    int // the number of decoded entries
	writes   int // the number of writes so far: equal numbers mean equal entries
	position Position
	asOf     time.Time // when the state was last known to be current; zero: never
}

// indexKey is the place of an item in an index.
type indexKey struct{ value, key string }

// entry is what an informer keeps of an object. It is immutable.
type entry[T any] struct {
	item    Item[T]
	decoded bool       // item is valid: this version of the object, or an older one, was decoded
	newest  *Object    // the newest version; item.Object unless that version cannot be decoded
	indexed [][]string // for each index, the values under which the item is found
}

func newState[T any](indexes int) *state[T] {
	s := &state[T]{}
	for range indexes {
		s.indexes = append(s.indexes, btree.NewBTreeGOptions(func(a, b indexKey) bool {
			return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.key, b.key)) < 0
		}, btree.Options{NoLocks: true}))
	}
	return s
}

// at returns a copy with another position.
func (s *state[T]) at(p Position) *state[T] {
	c := &state[T]{entries: *s.entries.Copy(), items: s.items, writes: s.writes, position: p, asOf: s.asOf}
	for _, index := range s.indexes {
		c.indexes = append(c.indexes, index.Copy())
	}
	return c
}

// get returns the entry of a key, or nil.
func (s *state[T]) get(key string) *entry[T] {
	e, _ := s.entries.Get(key)
	return e
}

func (s *state[T]) put(key string, e *entry[T]) {
	old, _ := s.entries.Set(key, e)
	s.account(key, old, e)
}

func (s *state[T]) remove(key string) {
	old, _ := s.entries.Delete(key)
	s.account(key, old, nil)
}

// account updates the counts and indexes after the entry of a key has changed from old
// to e; nil stands for no entry.
func (s *state[T]) account(key string, old, e *entry[T]) {
	s.writes++
	if old != nil && old.decoded {
		s.items--
		for i, values := range old.indexed {
			for _, value := range values {
				s.indexes[i].Delete(indexKey{value, key})
			}
		}
	}
	if e != nil && e.decoded {
		s.items++
		for i, values := range e.indexed {
			for _, value := range values {
				s.indexes[i].Set(indexKey{value, key})
			}
		}
	}
}

// objects yields the objects from which the same state can be built again. If the
// newest version of an object cannot be decoded, the version of the item comes first.
func (s *state[T]) objects(yield func(*Object) bool) {
	s.entries.Scan(func(_ string, e *entry[T]) bool {
		return (!e.decoded || e.item.Object == e.newest || yield(e.item.Object)) && yield(e.newest)
	})
}

// stateBuilder builds the states of an informer from the updates of its watch. It
// belongs to one goroutine.
type stateBuilder[T any] struct {
	informer  *Informer[T]
	next      *state[T] // the published state, or its replacement
	replacing bool      // next is a replacement that is not complete yet
}

// apply applies an update. It returns the state to publish and the changes for the
// handlers, or nothing while a replacement is not complete.
func (b *stateBuilder[T]) apply(u *Update) (*state[T], []change[T]) {
	if u.Replace {
		writes := b.next.writes + 1
		b.next, b.replacing = newState[T](len(b.informer.indexes)), true
		b.next.writes = writes
	}
	var changes []change[T]
	for _, e := range u.Events {
		if c, ok := b.applyEvent(e); ok && !b.replacing {
			changes = append(changes, c)
		}
	}
	if !u.Complete {
		return nil, nil
	}
	if b.replacing {
		changes, b.replacing = difference(b.informer.current.Load(), b.next), false
	}
	if !u.AsOf.IsZero() {
		b.next.asOf = u.AsOf
	}
	return b.next.at(u.Position), changes
}

// applyEvent applies an event to the next state. It returns false if nothing changed.
func (b *stateBuilder[T]) applyEvent(e Event) (change[T], bool) {
	key := e.Object.Key
	old := b.next.get(key)
	if e.Type == Deleted {
		if old == nil {
			return change[T]{}, false
		}
		b.next.remove(key)
		return change[T]{old: old}, true
	}
	previous := old
	if previous == nil && b.replacing {
		previous = b.informer.current.Load().get(key)
	}
	made := b.entry(e.Object, previous)
	b.next.put(key, made)
	return change[T]{old: old, new: made}, true
}

// entry returns the entry of an object. It is the previous one if that holds the same
// version, so that unchanged objects are not decoded again.
func (b *stateBuilder[T]) entry(o *Object, previous *entry[T]) *entry[T] {
	if previous != nil && sameVersion(previous.newest, o) {
		return previous
	}
	value, err := b.informer.decode.decode(o)
	if err != nil {
		b.informer.reportObject(o, err)
		e := &entry[T]{newest: o}
		if previous != nil && previous.decoded {
			e.item, e.decoded, e.indexed = previous.item, true, previous.indexed
			e.item.Invalid = err
		}
		return e
	}
	e := &entry[T]{item: Item[T]{Value: value, Object: o}, decoded: true, newest: o}
	for _, index := range b.informer.indexes {
		e.indexed = append(e.indexed, index.values(e.item))
	}
	return e
}

// sameVersion reports whether two objects with the same key are equal. Revisions alone
// do not decide that: in a new epoch the same revision can be another version.
func sameVersion(a, b *Object) bool {
	return a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision && a.Version == b.Version &&
		a.ContentType == b.ContentType && a.Opaque == b.Opaque && bytes.Equal(a.Value, b.Value) && maps.Equal(a.Labels, b.Labels)
}

// difference returns the changes from one state to another: first the deletions, then
// the rest, each in order of their keys.
func difference[T any](from, to *state[T]) []change[T] {
	var changes []change[T]
	from.entries.Scan(func(key string, old *entry[T]) bool {
		if to.get(key) == nil {
			changes = append(changes, change[T]{old: old})
		}
		return true
	})
	to.entries.Scan(func(key string, e *entry[T]) bool {
		if old := from.get(key); old != e {
			changes = append(changes, change[T]{old: old, new: e})
		}
		return true
	})
	return changes
}
