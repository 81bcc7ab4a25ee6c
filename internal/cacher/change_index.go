package cacher

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tidwall/btree"

	"github.com/fanoutd/fanoutd/internal/object"
)

// changeIndex finds what became of every key that changed since a revision. It indexes
// the objects by the revision of their last change, and keeps tombstones for a limited
// number of deleted keys. Its trees are copied on write; a copy is frozen with each state.
type changeIndex struct {
	byRevision *btree.BTreeG[Difference] // objects and tombstones, by revision and key
	tombstones *btree.BTreeG[Difference] // by key
	floor      object.Revision           // changes after this revision are complete, except for gaps
	gaps       []gap                     // oldest first; replaced, never modified

	// The fields below belong to the writer. A frozen copy does not have them.

	maxTombstones int
	deletions     *btree.BTreeG[Difference] // the tombstones, by revision and key
}

// ChangeID identifies a change. Changes are ordered by revision and then by key.
type ChangeID struct {
	At  object.Revision
	Key object.Key
}

func (id ChangeID) compare(other ChangeID) int {
	return cmp.Or(cmp.Compare(id.At, other.At), cmp.Compare(id.Key, other.Key))
}

// Difference is the last change of a key. That of a deleted key is its tombstone, until the key
// is created again.
type Difference struct {
	ChangeID
	Object *object.Object // the present object; nil: deleted
}

// isAfter reports whether the difference comes after a change. An id without a key stands
// for all changes of its revision.
func (d Difference) isAfter(id ChangeID) bool {
	return d.At > id.At || d.At == id.At && id.Key != "" && d.Key > id.Key
}

// gap is a range of revisions that a relist skipped. A key that was created and deleted
// inside the gap left no entry. The index therefore serves positions at both ends of a gap,
// but none inside.
type gap struct{ after, until object.Revision }

// maxGaps limits the gaps that are remembered. More relists than this within the life of
// the tombstones mean that something else is wrong.
const maxGaps = 16

func newChangeIndex(floor object.Revision, maxTombstones int) changeIndex {
	noLocks := btree.Options{NoLocks: true}
	byRevision := func(a, b Difference) bool { return a.compare(b.ChangeID) < 0 }
	return changeIndex{
		byRevision:    btree.NewBTreeGOptions(byRevision, noLocks),
		tombstones:    btree.NewBTreeGOptions(func(a, b Difference) bool { return a.Key < b.Key }, noLocks),
		deletions:     btree.NewBTreeGOptions(byRevision, noLocks),
		floor:         floor,
		maxTombstones: maxTombstones,
	}
}

// lastChange returns the difference that an object is.
func lastChange(o *object.Object) Difference {
	return Difference{ChangeID: ChangeID{At: o.ModRevision, Key: o.Key}, Object: o}
}

// freeze returns a copy that does not change.
func (x *changeIndex) freeze() changeIndex {
	return changeIndex{byRevision: x.byRevision.Copy(), tombstones: x.tombstones.Copy(), floor: x.floor, gaps: x.gaps}
}

// load fills an empty index with the present objects. It sorts the differences.
func (x *changeIndex) load(differences []Difference) {
	slices.SortFunc(differences, func(a, b Difference) int { return a.compare(b.ChangeID) })
	for _, d := range differences {
		x.byRevision.Load(d)
	}
}

// put records that o has replaced old, which is nil for a new key.
func (x *changeIndex) put(old, o *object.Object) {
	if old == nil {
		if t, ok := x.tombstones.Delete(Difference{ChangeID: ChangeID{Key: o.Key}}); ok {
			x.byRevision.Delete(t)
			x.deletions.Delete(t)
		}
	} else {
		x.byRevision.Delete(lastChange(old))
	}
	x.byRevision.Set(lastChange(o))
}

// remove records the deletion of an object, and removes the oldest tombstones above the limit.
func (x *changeIndex) remove(old *object.Object, at object.Revision) {
	t := Difference{ChangeID: ChangeID{At: at, Key: old.Key}}
	x.byRevision.Delete(lastChange(old))
	x.byRevision.Set(t)
	x.tombstones.Set(t)
	x.deletions.Set(t)
	for x.deletions.Len() > x.maxTombstones {
		oldest, _ := x.deletions.PopMin()
		x.tombstones.Delete(oldest)
		x.byRevision.Delete(oldest)
		x.floor = max(x.floor, oldest.At)
	}
}

// addGap records that a relist skipped the changes between two revisions.
func (x *changeIndex) addGap(after, until object.Revision) {
	gaps := append(slices.Clone(x.gaps), gap{after, until})
	if len(gaps) > maxGaps {
		x.floor = max(x.floor, gaps[0].until)
		gaps = gaps[1:]
	}
	x.gaps = gaps
}

// covers reports whether the index knows what became of every key since the revision.
func (x *changeIndex) covers(after object.Revision) bool {
	if after < x.floor {
		return false
	}
	return !slices.ContainsFunc(x.gaps, func(g gap) bool { return g.after < after && after < g.until })
}

// HasDelta reports whether [State.Since] knows all keys that changed after the revision.
func (s *State) HasDelta(after object.Revision) bool { return s.changes.covers(after) }

// Since returns the last change of each key in the scope that changed after the revision,
// in order of [ChangeID]. It includes keys that were created and deleted since: a client
// whose catch-up from that revision was interrupted may have received them.
//
// It begins after the change last, so a reader that takes a part at a time keeps only
// that. The zero value means from the start. [State.HasDelta] must hold for the revision.
func (s *State) Since(after object.Revision, scope object.Scope, last ChangeID) iter.Seq[Difference] {
	return func(yield func(Difference) bool) {
		last.At = max(last.At, after)
		if entries, ok := s.sinceByKey(last, scope); ok {
			for _, d := range entries {
				if !yield(d) {
					return
				}
			}
			return
		}
		s.changes.byRevision.Ascend(Difference{ChangeID: last}, func(d Difference) bool {
			return !d.isAfter(last) || !scope.Contains(d.Key) || yield(d)
		})
	}
}

// sinceByKey returns the entries of the scope after the change last, if the scope has
// fewer keys than there are entries after last. Otherwise it returns false, and walking
// by revision is cheaper.
func (s *State) sinceByKey(last ChangeID, scope object.Scope) ([]Difference, bool) {
	index, tombstones := s.changes.byRevision, s.changes.tombstones
	first := &object.Object{Key: scope.First()}
	keys := countIn(s.objects, scope, first.Key, func(o *object.Object) object.Key { return o.Key }) +
		countIn(tombstones, scope, first.Key, func(d Difference) object.Key { return d.Key })
	if keys >= index.Len()-rank(index, func(d Difference) bool { return d.isAfter(last) }) {
		return nil, false
	}
	var entries []Difference
	add := func(d Difference) bool {
		if scope.Contains(d.Key) && d.isAfter(last) {
			entries = append(entries, d)
		}
		return scope.Contains(d.Key)
	}
	s.objects.Ascend(first, func(o *object.Object) bool { return add(lastChange(o)) })
	tombstones.Ascend(Difference{ChangeID: ChangeID{Key: first.Key}}, add)
	slices.SortFunc(entries, func(a, b Difference) int { return a.compare(b.ChangeID) })
	return entries, true
}
