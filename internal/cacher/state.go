package cacher

import (
	"iter"
	"time"

	"github.com/tidwall/btree"

	"github.com/fanoutd/fanoutd/internal/object"
)

// State is a resource at one revision: its objects, and the changes that led there. It
// never changes. All methods are safe for concurrent use, and none of them blocks.
type State struct {
	position      object.Position
	objects       *btree.BTreeG[*object.Object]
	window        window
	changes       changeIndex
	undecryptable int
	published     time.Time
	superseded    chan struct{} // closed when a newer state has been published
}

// newTree returns an empty tree of objects by key.
func newTree() *btree.BTreeG[*object.Object] {
	return newTreeBy(func(a, b *object.Object) bool { return a.Key < b.Key })
}

// newTreeBy returns an empty tree of objects.
func newTreeBy(less func(a, b *object.Object) bool) *btree.BTreeG[*object.Object] {
	// The writer has its own copy and readers have frozen ones, so no locks are needed.
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// compact releases the memory that a tree keeps after it was filled in order: each full node was
// split, and its halves share an array that is twice as large as what is left in it. The copy of a
// node has an array of its own.
func compact(tree *btree.BTreeG[*object.Object]) {
	_ = tree.Copy() // so that the writer owns no node
	tree.ScanMut(func(*object.Object) bool { return true })
}

// Position returns the position of the state. It includes every change up to there.
func (s *State) Position() object.Position { return s.position }

// Revision returns the revision of [State.Position].
func (s *State) Revision() object.Revision { return s.position.Revision }

// Superseded returns a channel that is closed when there is a newer state.
func (s *State) Superseded() <-chan struct{} { return s.superseded }

// Len returns the number of objects.
func (s *State) Len() int { return s.objects.Len() }

// Undecryptable returns the number of objects whose value cannot be decrypted.
func (s *State) Undecryptable() int { return s.undecryptable }

// WindowLen returns the number of changes in the window.
func (s *State) WindowLen() int { return len(s.window.changes) }

// WindowBytes returns the approximate memory of the changes in the window.
func (s *State) WindowBytes() int { return s.window.bytes }

// Arrived returns when this server received the oldest change in the window after the
// revision. It returns false if there is none.
func (s *State) Arrived(after object.Revision) (time.Time, bool) {
	i := s.window.search(after)
	if i == len(s.window.changes) {
		return time.Time{}, false
	}
	return s.window.changes[i].at, true
}

// Published returns when the state became visible.
func (s *State) Published() time.Time { return s.published }

// Tombstones returns the number of remembered deletions.
func (s *State) Tombstones() int { return s.changes.tombstones.Len() }

// Get returns the object with the given key, or nil.
func (s *State) Get(key object.Key) *object.Object {
	o, _ := s.objects.Get(&object.Object{Key: key})
	return o
}

// Objects returns the objects of the scope with keys from start on, in ascending order
// of keys.
func (s *State) Objects(scope object.Scope, start object.Key) iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		s.objects.Ascend(&object.Object{Key: max(start, scope.First())}, func(o *object.Object) bool {
			return scope.Contains(o.Key) && yield(o)
		})
	}
}

// Replayable returns the oldest revision after which the window has every change. A watch
// cannot resume at an older one by replaying the window.
func (s *State) Replayable() object.Revision { return s.window.after }

// CanReplay reports whether a client that has everything up to a position can get the rest as a REPLAY:
// the window has every later change. At revision 0 the client has nothing, and needs a snapshot.
func (s *State) CanReplay(after object.Position) bool {
	return after.Revision > 0 && after.Epoch == s.Position().Epoch && after.Revision >= s.Replayable()
}

// Changes returns the changes after the revision, oldest first, each with the time at
// which it arrived. It returns false if the window no longer has them all, as after a
// relist.
func (s *State) Changes(after object.Revision) (iter.Seq2[*object.Change, time.Time], bool) {
	if after < s.Replayable() {
		return nil, false
	}
	return s.window.since(after), true
}
