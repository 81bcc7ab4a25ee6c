package cacher

import (
	"iter"
	"slices"
	"sort"
	"time"

	"github.com/tidwall/btree"

	"github.com/fanoutd/fanoutd/internal/object"
)

// State is a resource at one revision: its objects, and the changes that led
// there. It is frozen; all its methods may be called from any goroutine and none
// of them blocks.
type State struct {
	position   object.Position
	objects    *btree.BTreeG[*object.Object]
	window     window
	traces     traces
	relisted   object.Revision
	unreadable int // see Undecryptable
	published  time.Time
	superseded chan struct{} // closed when a newer state has been published
}

func newTree() *btree.BTreeG[*object.Object] {
	less := func(a, b *object.Object) bool { return a.Key < b.Key }
	// The writer works on its own copy and readers on frozen ones: no locks.
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// Position returns where the state is: every change up to there is in it.
func (s *State) Position() object.Position { return s.position }

// Revision returns the revision of [State.Position].
func (s *State) Revision() object.Revision { return s.position.Revision }

// Superseded returns a channel that is closed when there is a newer state.
func (s *State) Superseded() <-chan struct{} { return s.superseded }

// Len returns the number of objects.
func (s *State) Len() int { return s.objects.Len() }

// Undecryptable returns the number of objects whose values cannot be decrypted.
func (s *State) Undecryptable() int { return s.unreadable }

// WindowLen returns the number of changes in the window.
func (s *State) WindowLen() int { return s.window.count }

// WindowBytes returns the memory that the changes in the window account for,
// roughly.
func (s *State) WindowBytes() int { return s.window.bytes }

// Arrived returns when the oldest change in the window that happened after the
// revision arrived here, or false where there is none.
func (s *State) Arrived(after object.Revision) (time.Time, bool) {
	i := s.window.search(after)
	if i == s.window.count {
		return time.Time{}, false
	}
	return s.window.received(i), true
}

// Published returns when the state became visible.
func (s *State) Published() time.Time { return s.published }

// Tombstones returns the number of deletions that are remembered.
func (s *State) Tombstones() int { return s.traces.graves.Len() }

// Get returns the object with the given key, or nil.
func (s *State) Get(key object.Key) *object.Object {
	o, _ := s.objects.Get(&object.Object{Key: key})
	return o
}

// Objects returns the objects of the scope with keys from start on, in ascending
// order of keys.
func (s *State) Objects(scope object.Scope, start object.Key) iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		s.objects.Ascend(&object.Object{Key: max(start, scope.First())}, func(o *object.Object) bool {
			return scope.Contains(o.Key) && yield(o)
		})
	}
}

// Replayable returns the oldest revision after which every change that happened
// is known. Resuming at an older one needs another way.
func (s *State) Replayable() object.Revision { return max(s.relisted, s.window.after) }

// Relisted returns the revision at which the state was last listed again after its
// watch was lost, or 0. Changes of that revision stand for those in between.
func (s *State) Relisted() object.Revision { return s.relisted }

// Changes returns the changes after the revision, oldest first, each with the time
// at which it arrived here, or false where the window no longer has them all. Behind
// a relist they are the differences that were found instead of the changes that were
// made; a reader who must know compares with [State.Relisted].
func (s *State) Changes(after object.Revision) (iter.Seq2[*object.Change, time.Time], bool) {
	if after < s.window.after {
		return nil, false
	}
	return s.window.since(after), true
}

// ObjectsAt is [State.Objects] as it was at an older revision: the newer changes
// undone. It returns false where the window no longer reaches back to it.
func (s *State) ObjectsAt(at object.Revision, scope object.Scope, start object.Key) (iter.Seq[*object.Object], bool) {
	undone, ok := s.undone(at, scope, start)
	if !ok {
		return nil, false
	}
	if len(undone) == 0 {
		return s.Objects(scope, start), true
	}
	keys := make([]object.Key, 0, len(undone))
	for key, o := range undone {
		if o != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return func(yield func(*object.Object) bool) {
		pending := keys
		for o := range s.Objects(scope, start) {
			for len(pending) > 0 && pending[0] < o.Key {
				if !yield(undone[pending[0]]) {
					return
				}
				pending = pending[1:]
			}
			old, changed := undone[o.Key]
			switch {
			case !changed:
				if !yield(o) {
					return
				}
			case old != nil:
				pending = pending[1:]
				if !yield(old) {
					return
				}
			}
		}
		for _, key := range pending {
			if !yield(undone[key]) {
				return
			}
		}
	}, true
}

// CountAt returns how many objects [State.ObjectsAt] returns. It looks at the changes
// since then and at few of the objects, however many there are.
func (s *State) CountAt(at object.Revision, scope object.Scope, start object.Key) (int, bool) {
	undone, ok := s.undone(at, scope, start)
	if !ok {
		return 0, false
	}
	n := s.count(scope, start)
	for key, old := range undone {
		if old != nil {
			n++
		}
		if s.Get(key) != nil {
			n--
		}
	}
	return n, true
}

// count returns how many objects [State.Objects] returns.
func (s *State) count(scope object.Scope, start object.Key) int {
	start = max(start, scope.First())
	key := func(i int) object.Key {
		o, _ := s.objects.GetAt(i) // nodes of the tree know how many objects are below them
		return o.Key
	}
	first := sort.Search(s.Len(), func(i int) bool { return key(i) >= start })
	return sort.Search(s.Len()-first, func(i int) bool { return !scope.Contains(key(first + i)) })
}

// undone returns what has been changed since a revision of the objects that
// [State.Objects] is about, as it was then: nil where there was none. It returns false
// where the window no longer reaches back to it.
func (s *State) undone(at object.Revision, scope object.Scope, start object.Key) (map[object.Key]*object.Object, bool) {
	if at >= s.Revision() {
		return nil, true
	}
	if at < s.Replayable() {
		return nil, false
	}
	// Walking from the newest change to the oldest, what is noted last for a
	// key is the state before the first of its changes.
	undone := map[object.Key]*object.Object{}
	for c := range s.window.undoing(at) {
		if scope.Contains(c.Key) && c.Key >= start {
			undone[c.Key] = c.Old
		}
	}
	return undone, true
}
