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

// Objects of an older revision are computed in chunks of keys. The first chunk has this
// many objects, and each further one is larger: a reader of one page does not pay for all
// later changes, and a reader of everything walks the window only a few times. The
// numbers are guesses; the first is the size of a page.
const (
	firstChunk  = 1024
	chunkGrowth = 4
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
		from := max(start, scope.First())
		for length := firstChunk; ; length *= chunkGrowth {
			until := s.keyAhead(from, length)
			if !s.yieldChunk(at, scope, from, until, yield) || until == "" || !scope.Contains(until) {
				return
			}
			from = until
		}
	}, true
}

// CountAt returns the number of objects that [State.ObjectsAt] returns. It walks the
// newer changes, but only a few of the objects.
func (s *State) CountAt(at object.Revision, scope object.Scope, start object.Key) (int, bool) {
	if at < s.Replayable() {
		return 0, false
	}
	start = max(start, scope.First())
	n := countIn(s.objects, scope, start)
	for _, c := range s.firstChanges(at, scope, start, "") {
		if c.Old != nil {
			n++
		}
		if s.Get(c.Key) != nil {
			n--
		}
	}
	return n, true
}

// yieldChunk yields the objects of the scope with keys in [from, until) as they were at
// the revision. If until is empty, the chunk has no end. It reports whether the reader
// wants more.
func (s *State) yieldChunk(at object.Revision, scope object.Scope, from, until object.Key, yield func(*object.Object) bool) bool {
	changes := s.firstChanges(at, scope, from, until)
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
	for o := range s.Objects(scope, from) {
		if until != "" && o.Key >= until {
			break
		}
		if !passed(func(key object.Key) bool { return key < o.Key }) {
			return false
		}
		if len(changes) > 0 && changes[0].Key == o.Key {
			continue // the next call of passed yields what it was
		}
		if !yield(o) {
			return false
		}
	}
	return passed(func(object.Key) bool { return true })
}

// firstChanges returns the first change of each key since the revision, in order of keys: what the
// objects of the scope with keys in [from, until) were then. If until is empty, the range has no
// end.
func (s *State) firstChanges(at object.Revision, scope object.Scope, from, until object.Key) []*object.Change {
	var changes []*object.Change
	for c := range s.window.since(at) {
		if c.Key >= from && (until == "" || c.Key < until) && scope.Contains(c.Key) {
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b *object.Change) int { return cmp.Compare(a.Key, b.Key) })
	return slices.CompactFunc(changes, func(a, b *object.Change) bool { return a.Key == b.Key })
}

// keyAhead returns the key of the object that comes count objects after the first one
// from the key on. It returns "" if there are not as many.
func (s *State) keyAhead(from object.Key, count int) object.Key {
	first := rank(s.objects, func(o *object.Object) bool { return o.Key >= from })
	if o, ok := s.objects.GetAt(first + count); ok {
		return o.Key
	}
	return ""
}

// countIn returns how many objects of a tree by key are in the scope, from the key start on. The
// nodes of the tree know the sizes of their subtrees, so this does not walk the objects.
func countIn(tree *btree.BTreeG[*object.Object], scope object.Scope, start object.Key) int {
	end := rank(tree, func(o *object.Object) bool { return o.Key >= start && !scope.Contains(o.Key) })
	return end - rank(tree, func(o *object.Object) bool { return o.Key >= start })
}

// rank returns the number of objects before the first one for which isAfter is true.
func rank(tree *btree.BTreeG[*object.Object], isAfter func(*object.Object) bool) int {
	return sort.Search(tree.Len(), func(i int) bool {
		o, _ := tree.GetAt(i)
		return isAfter(o)
	})
}

// History returns the objects of the scope with keys from start on as they were at a
// revision, in ascending order of keys. It reads them from the store page by page, for
// revisions older than the window. An error ends the sequence; it wraps
// [object.ErrCompacted] if the store has forgotten the revision, too.
func (c *Cacher) History(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		for r, err := range inPages(c.pages(ctx, at, scope, start)) {
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
