package client

import (
	"cmp"
	"slices"

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

// replica makes views of updates. It belongs to one goroutine.
type replica[T any] struct {
	informer *Informer[T]
	next     *view[T]    // the published view and what has changed since
	changes  []change[T] // what has changed since, as it was told
	replaced bool        // next is made from nothing
}

// take applies an update. It returns the view to publish and what handlers are to be
// told then; nothing while the update is not complete.
func (r *replica[T]) take(u *Update) (*view[T], []change[T]) {
	if u.Replace {
		writes := r.next.writes + 1
		r.next, r.changes, r.replaced = newView[T](len(r.informer.indexes)), nil, true
		r.next.writes = writes
	}
	together := len(r.changes) == 0
	for _, e := range u.Events {
		r.apply(e)
	}
	if !u.Complete {
		return nil, nil
	}
	changes := r.changes
	switch {
	case r.replaced:
		changes = difference(r.informer.current.Load(), r.next)
	case !together:
		changes = merge(changes)
	}
	r.changes, r.replaced = nil, false
	return r.next.freeze(u.Position), changes
}

func (r *replica[T]) apply(e Event) {
	key := e.Object.Key
	old := r.next.get(key)
	if e.Type == Deleted {
		if old != nil {
			r.next.remove(key)
			r.note(change[T]{old: old})
		}
		return
	}
	made := r.entry(e.Object, r.last(key, old))
	r.next.put(key, made)
	r.note(change[T]{old: old, new: made})
}

// note remembers a change that is to be told, unless the difference tells all.
func (r *replica[T]) note(c change[T]) {
	if !r.replaced {
		r.changes = append(r.changes, c)
	}
}

// last returns the last entry of a key: while the state is replaced, the one that is
// published.
func (r *replica[T]) last(key string, old *entry[T]) *entry[T] {
	if old == nil && r.replaced {
		return r.informer.current.Load().get(key)
	}
	return old
}

// entry returns the entry of an object, which is the last one if that is of the same
// object.
func (r *replica[T]) entry(o *Object, last *entry[T]) *entry[T] {
	if last != nil && unchanged(last.newest, o) {
		return last
	}
	value, err := r.informer.decode.of(o)
	if err != nil {
		r.informer.report(o, err)
		e := &entry[T]{newest: o}
		if last != nil && last.good {
			e.item, e.good, e.indexed = last.item, true, last.indexed
			e.item.Invalid = err
		}
		return e
	}
	e := &entry[T]{item: Item[T]{Value: value, Object: o}, good: true, newest: o}
	for _, index := range r.informer.indexes {
		e.indexed = append(e.indexed, index.values(e.item))
	}
	return e
}

// merge returns what changes come to, with one change for each key. An interruption
// can make more of them, some of which take others back.
func merge[T any](changes []change[T]) []change[T] {
	places := map[string]int{}
	merged := changes[:0]
	for _, c := range changes {
		key := c.key()
		if at, ok := places[key]; ok {
			merged[at].new = c.new
			continue
		}
		places[key] = len(merged)
		merged = append(merged, c)
	}
	return slices.DeleteFunc(merged, func(c change[T]) bool { return c.old == c.new })
}

// difference returns what leads from one view to another: deletions, then the rest,
// each in order of the keys.
func difference[T any](from, to *view[T]) []change[T] {
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
