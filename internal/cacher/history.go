package cacher

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"

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
	first := s.rank(start)
	n := sort.Search(s.Len()-first, func(i int) bool { return !scope.Contains(s.key(first + i)) })
	for key, old := range s.changedSince(at, scope, start, "") {
		if old != nil {
			n++
		}
		if s.Get(key) != nil {
			n--
		}
	}
	return n, true
}

// yieldChunk yields the objects of the scope with keys in [from, until) as they were at
// the revision. If until is empty, the chunk has no end. It reports whether the reader
// wants more.
func (s *State) yieldChunk(at object.Revision, scope object.Scope, from, until object.Key, yield func(*object.Object) bool) bool {
	changed := s.changedSince(at, scope, from, until)
	pending := make([]object.Key, 0, len(changed)) // keys of changed objects to yield
	for key, o := range changed {
		if o != nil {
			pending = append(pending, key)
		}
	}
	slices.Sort(pending)
	for o := range s.Objects(scope, from) {
		if until != "" && o.Key >= until {
			break
		}
		for len(pending) > 0 && pending[0] < o.Key {
			if !yield(changed[pending[0]]) {
				return false
			}
			pending = pending[1:]
		}
		if old, ok := changed[o.Key]; ok {
			if o = old; o == nil {
				continue // the object did not exist then
			}
			pending = pending[1:]
		}
		if !yield(o) {
			return false
		}
	}
	for _, key := range pending {
		if !yield(changed[key]) {
			return false
		}
	}
	return true
}

// changedSince returns the objects of the scope with keys in [from, until) that have
// changed since the revision, as they were then: nil for a key that did not exist. If
// until is empty, the range has no end.
func (s *State) changedSince(at object.Revision, scope object.Scope, from, until object.Key) map[object.Key]*object.Object {
	// From the newest change to the oldest: the last entry for a key is its state
	// before the first of its changes.
	changed := map[object.Key]*object.Object{}
	for c := range s.window.newestFirst(at) {
		if c.Key >= from && (until == "" || c.Key < until) && scope.Contains(c.Key) {
			changed[c.Key] = c.Old
		}
	}
	return changed
}

// keyAhead returns the key of the object that comes count objects after the first one
// from the key on. It returns "" if there are not as many.
func (s *State) keyAhead(from object.Key, count int) object.Key {
	if i := s.rank(from) + count; i < s.Len() {
		return s.key(i)
	}
	return ""
}

// rank returns the number of objects with smaller keys.
func (s *State) rank(key object.Key) int {
	return sort.Search(s.Len(), func(i int) bool { return s.key(i) >= key })
}

// key returns the key of object i. The nodes of the tree know the sizes of their
// subtrees, so this does not walk the objects before it.
func (s *State) key(i int) object.Key {
	o, _ := s.objects.GetAt(i)
	return o.Key
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
