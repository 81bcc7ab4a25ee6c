package client

import (
	"bytes"
	"cmp"
	"fmt"
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
	invalid error      // why the newest version cannot be decoded; nil if it can
	before  int64      // if it cannot: the revision before the oldest of the versions since item that cannot be decoded
	indexed [][]string // for each index, the values under which the item is found
}

func (e *entry[T]) key() string     { return e.newest.Key }
func (e *entry[T]) revision() int64 { return e.newest.ModRevision }

// offered is the revision of the version that handlers get.
func (e *entry[T]) offered() int64 {
	if e.decoded {
		return e.item.Object.ModRevision
	}
	return e.revision()
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

// copy returns a copy, which later changes do not affect.
func (s *state[T]) copy() *state[T] {
	c := &state[T]{entries: *s.entries.Copy(), items: s.items, writes: s.writes, position: s.position, asOf: s.asOf}
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

// entryOf returns the entry of an object that had the previous entry, or nil, up to the revision before.
func (i *Informer[T]) entryOf(o *Object, previous *entry[T], before int64) *entry[T] {
	e := &entry[T]{item: Item[T]{Object: o}, decoded: true, newest: o}
	err := i.restarter.call(func() (err error) {
		if e.item.Value, err = i.decode.decode(o); err != nil {
			return err
		}
		for _, index := range i.indexes {
			e.indexed = append(e.indexed, index.values(e.item))
		}
		return nil
	})
	if err != nil {
		i.logInvalid(o, err)
		e = &entry[T]{newest: o, invalid: fmt.Errorf("object %q at revision %d: %w", o.Key, o.ModRevision, err), before: before}
		if previous != nil && previous.invalid != nil {
			e.before = min(e.before, previous.before)
		}
		if previous != nil && previous.decoded {
			e.item, e.decoded, e.indexed = previous.item, true, previous.indexed
			e.item.Invalid = err
		}
	}
	return e
}

// sameVersion reports whether two objects with the same key are equal. Revisions alone
// do not decide that: in a new epoch the same revision can be another version.
func sameVersion(a, b *Object) bool {
	return a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision && a.Version == b.Version &&
		a.ContentType == b.ContentType && a.Opaque == b.Opaque && bytes.Equal(a.Value, b.Value) && maps.Equal(a.Labels, b.Labels)
}
