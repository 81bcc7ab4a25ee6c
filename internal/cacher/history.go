package cacher

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/tidwall/btree"

	"github.com/fanoutd/fanoutd/internal/object"
)

// ObjectsAt is like [State.Objects] at an older revision. It undoes the newer changes of
// the window. It returns false if the window no longer reaches back to the revision.
func (s *State) ObjectsAt(at object.Revision, scope object.Scope, start object.Key) (iter.Seq[*object.Object], bool) {
	switch {
	case at >= s.Revision():
		return s.Objects(scope, start), true
	case at < s.Replayable():
		return nil, false
	}
	return func(yield func(*object.Object) bool) {
		changes := s.firstChanges(at, scope, start)
		// passed yields the changed objects before a key. It reports whether the reader wants more.
		passed := func(isBefore func(object.Key) bool) bool {
			for len(changes) > 0 && isBefore(changes[0].Key) {
				old := changes[0].Old
				changes = changes[1:]
				if old != nil && !yield(old) {
					return false
				}
			}
			return true
		}
		for o := range s.Objects(scope, start) {
			if !passed(func(key object.Key) bool { return key < o.Key }) {
				return
			}
			if len(changes) > 0 && changes[0].Key == o.Key {
				continue // the next call of passed yields what it was
			}
			if !yield(o) {
				return
			}
		}
		passed(func(object.Key) bool { return true })
	}, true
}

// CountAt returns the number of objects that [State.ObjectsAt] returns. It walks the
// newer changes, but only a few of the objects.
func (s *State) CountAt(at object.Revision, scope object.Scope, start object.Key) (int, bool) {
	if at < s.Replayable() {
		return 0, false
	}
	start = max(start, scope.First())
	n := countIn(s.objects, scope, start, func(o *object.Object) object.Key { return o.Key })
	for _, c := range s.firstChanges(at, scope, start) {
		if c.Old != nil {
			n++
		}
		if s.Get(c.Key) != nil {
			n--
		}
	}
	return n, true
}

// firstChanges returns the first change of each key since the revision, in order of keys: what the
// objects of the scope with keys from start on were then.
func (s *State) firstChanges(at object.Revision, scope object.Scope, start object.Key) []*object.Change {
	var changes []*object.Change
	for c := range s.window.since(at) {
		if c.Key >= start && scope.Contains(c.Key) {
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b *object.Change) int { return cmp.Compare(a.Key, b.Key) })
	return slices.CompactFunc(changes, func(a, b *object.Change) bool { return a.Key == b.Key })
}

// countIn returns how many items of a tree by key are in the scope, from the key start on. The
// nodes of the tree know the sizes of their subtrees, so this does not walk the items.
func countIn[T any](tree *btree.BTreeG[T], scope object.Scope, start object.Key, key func(T) object.Key) int {
	end := rank(tree, func(item T) bool { return key(item) >= start && !scope.Contains(key(item)) })
	return end - rank(tree, func(item T) bool { return key(item) >= start })
}

// rank returns the number of items before the first one for which isAfter is true.
func rank[T any](tree *btree.BTreeG[T], isAfter func(T) bool) int {
	return sort.Search(tree.Len(), func(i int) bool {
		item, _ := tree.GetAt(i)
		return isAfter(item)
	})
}

// History returns the objects of the scope with keys from start on as they were at a
// revision, in ascending order of keys. It reads them from the store page by page, for
// revisions older than the window. An error ends the sequence; it wraps
// [object.ErrCompacted] if the store has forgotten the revision, too.
func (c *Cacher) History(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		for r, err := range c.records(ctx, at, scope, start) {
			if err != nil {
				yield(nil, fmt.Errorf("list at revision %d: %w", at, err))
				return
			}
			o, _ := c.decode(r)
			if !yield(o, nil) {
				return
			}
		}
	}
}

// records returns the records of the scope with keys from start on as of a revision. It reads
// them page by page.
func (c *Cacher) records(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) iter.Seq2[*object.Record, error] {
	return func(yield func(*object.Record, error) bool) {
		for {
			records, more, err := c.cfg.Store.List(ctx, at, scope, start, c.cfg.PageSize)
			if err == nil && more && len(records) == 0 {
				err = fmt.Errorf("the store returned an empty page and says there is more after %q", start)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range records {
				if !yield(&records[i], nil) {
					return
				}
			}
			if !more {
				return
			}
			start = records[len(records)-1].Key + "\x00"
		}
	}
}
