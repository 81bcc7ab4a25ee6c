package cacher

import (
	"iter"
	"slices"
	"sort"

	"github.com/fanoutd/fanoutd/internal/object"
)

// The past is made in stretches of this many objects, and of more and more of them: who
// takes a page does not pay for all the changes behind it, and who takes everything
// looks at the window a few times. A guess: as much as a page.
const (
	firstStretch  = 1024
	stretchGrowth = 4
)

// ObjectsAt is [State.Objects] as it was at an older revision: the newer changes
// undone. It returns false where the window no longer reaches back to it.
func (s *State) ObjectsAt(at object.Revision, scope object.Scope, start object.Key) (iter.Seq[*object.Object], bool) {
	switch {
	case at >= s.Revision():
		return s.Objects(scope, start), true
	case at < s.Replayable():
		return nil, false
	}
	return func(yield func(*object.Object) bool) {
		from := max(start, scope.First())
		for length := firstStretch; ; length *= stretchGrowth {
			until := s.ahead(from, length)
			if !s.stretch(at, scope, from, until, yield) || until == "" || !scope.Contains(until) {
				return
			}
			from = until
		}
	}, true
}

// CountAt returns how many objects [State.ObjectsAt] returns. It looks at the changes
// since then and at few of the objects, however many there are.
func (s *State) CountAt(at object.Revision, scope object.Scope, start object.Key) (int, bool) {
	if at < s.Replayable() {
		return 0, false
	}
	start = max(start, scope.First())
	first := s.rank(start)
	n := sort.Search(s.Len()-first, func(i int) bool { return !scope.Contains(s.key(first + i)) })
	for key, old := range s.undone(at, scope, start, "") {
		if old != nil {
			n++
		}
		if s.Get(key) != nil {
			n--
		}
	}
	return n, true
}

// stretch yields the objects of the scope from a key on and before another one, as they
// were, and reports whether more are wanted. No key: up to the end.
func (s *State) stretch(at object.Revision, scope object.Scope, from, until object.Key, yield func(*object.Object) bool) bool {
	undone := s.undone(at, scope, from, until)
	pending := make([]object.Key, 0, len(undone))
	for key, o := range undone {
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
			if !yield(undone[pending[0]]) {
				return false
			}
			pending = pending[1:]
		}
		if old, changed := undone[o.Key]; changed {
			if o = old; o == nil {
				continue // it was not there
			}
			pending = pending[1:]
		}
		if !yield(o) {
			return false
		}
	}
	for _, key := range pending {
		if !yield(undone[key]) {
			return false
		}
	}
	return true
}

// undone returns the objects that have been changed since a revision, as they were then:
// nil where there was none. They are those of the scope from a key on and before another
// one; no key: up to the end.
func (s *State) undone(at object.Revision, scope object.Scope, from, until object.Key) map[object.Key]*object.Object {
	// Walking from the newest change to the oldest, what is noted last for a
	// key is the state before the first of its changes.
	undone := map[object.Key]*object.Object{}
	for c := range s.window.undoing(at) {
		if c.Key >= from && (until == "" || c.Key < until) && scope.Contains(c.Key) {
			undone[c.Key] = c.Old
		}
	}
	return undone
}

// ahead returns the key of the object that is so many further than the first one from a
// key on, or none.
func (s *State) ahead(from object.Key, count int) object.Key {
	if i := s.rank(from) + count; i < s.Len() {
		return s.key(i)
	}
	return ""
}

// rank returns how many objects have smaller keys.
func (s *State) rank(key object.Key) int {
	return sort.Search(s.Len(), func(i int) bool { return s.key(i) >= key })
}

// key returns the key of object i. The nodes of the tree know how many objects are below
// them, so that the others are not looked at.
func (s *State) key(i int) object.Key {
	o, _ := s.objects.GetAt(i)
	return o.Key
}
