package cacher

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/fanoutd/fanoutd/internal/object"
)

// changeIndex finds what became of every key that changed since a revision. It indexes
// the objects by the revision of their last change, and keeps tombstones for a limited
// number of deleted keys. A tombstone is an object that only stands for its key, with the revision
// of the deletion. The trees are copied on write; a copy is frozen with each state.
type changeIndex struct {
	byRevision *btree.BTreeG[*object.Object] // objects and tombstones, by revision and key
	tombstones *btree.BTreeG[*object.Object] // by key
	floor      object.Revision               // changes after this revision are complete, except for gaps
	gaps       []gap                         // oldest first; replaced, never modified

	// The fields below belong to the writer. A frozen copy does not have them.

	maxTombstones int
	deletions     *btree.BTreeG[*object.Object] // the tombstones, by revision and key
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
	byRevision := func(a, b *object.Object) bool { return changeOf(a).compare(changeOf(b)) < 0 }
	return changeIndex{
		byRevision:    newTreeBy(byRevision),
		tombstones:    newTree(),
		deletions:     newTreeBy(byRevision),
		floor:         floor,
		maxTombstones: maxTombstones,
	}
}

// changeOf returns the change that an object or a tombstone is.
func changeOf(o *object.Object) ChangeID { return ChangeID{At: o.ModRevision, Key: o.Key} }

// lastChange returns the difference that an object or a tombstone is.
func lastChange(o *object.Object) Difference {
	d := Difference{ChangeID: changeOf(o)}
	if !o.IsKeyOnly() {
		d.Object = o
	}
	return d
}

// freeze returns a copy that does not change.
func (x *changeIndex) freeze() changeIndex {
	return changeIndex{byRevision: x.byRevision.Copy(), tombstones: x.tombstones.Copy(), floor: x.floor, gaps: x.gaps}
}

// load fills an empty index with the present objects. It sorts them.
func (x *changeIndex) load(objects []*object.Object) {
	slices.SortFunc(objects, func(a, b *object.Object) int { return changeOf(a).compare(changeOf(b)) })
	for _, o := range objects {
		x.byRevision.Load(o)
	}
}

// put records that o has replaced old, which is nil for a new key.
func (x *changeIndex) put(old, o *object.Object) {
	if old == nil {
		if t, ok := x.tombstones.Delete(o); ok {
			x.byRevision.Delete(t)
			x.deletions.Delete(t)
		}
	} else {
		x.byRevision.Delete(old)
	}
	x.byRevision.Set(o)
}

// remove records the deletion of an object, and removes the oldest tombstones above the limit.
func (x *changeIndex) remove(old *object.Object, at object.Revision) {
	// The key of the object shares the memory of its value.
	t := &object.Object{Key: object.Key(strings.Clone(string(old.Key))), ModRevision: at}
	x.byRevision.Delete(old)
	x.byRevision.Set(t)
	x.tombstones.Set(t)
	x.deletions.Set(t)
	for x.deletions.Len() > x.maxTombstones {
		oldest, _ := x.deletions.PopMin()
		x.tombstones.Delete(oldest)
		x.byRevision.Delete(oldest)
		x.floor = max(x.floor, oldest.ModRevision)
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
		s.changes.byRevision.Ascend(&object.Object{Key: last.Key, ModRevision: last.At}, func(o *object.Object) bool {
			d := lastChange(o)
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
	keys := countIn(s.objects, scope, first.Key) + countIn(tombstones, scope, first.Key)
	if keys >= index.Len()-rank(index, func(o *object.Object) bool { return lastChange(o).isAfter(last) }) {
		return nil, false
	}
	var entries []Difference
	add := func(o *object.Object) bool {
		if d := lastChange(o); scope.Contains(d.Key) && d.isAfter(last) {
			entries = append(entries, d)
		}
		return scope.Contains(o.Key)
	}
	s.objects.Ascend(first, add)
	tombstones.Ascend(first, add)
	slices.SortFunc(entries, func(a, b Difference) int { return a.compare(b.ChangeID) })
	return entries, true
}
