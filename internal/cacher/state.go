package cacher

import (
	"iter"
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
