package cacher

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tidwall/btree"

	"github.com/fanoutd/fanoutd/internal/object"
)

// grave is what is left of a key that was deleted, until it comes back.
type grave struct {
	key object.Key
	at  object.Revision // of the deletion
}

// trace is the latest thing that is known of a key: an object or a grave.
type trace struct {
	at     object.Revision
	key    object.Key
	object *object.Object // nil: a grave
}

// gap is a piece of history that a relist has jumped over. What was created and
// deleted within it has left no trace, so a position inside cannot be served by
// difference; one at either end can.
type gap struct{ after, until object.Revision }

// maxGaps bounds what is remembered of relists. Whoever relists more often than
// this within the memory of deletions has other worries.
const maxGaps = 16

// traces says what became of the keys that changed since a revision: an index of
// the objects by the revision of their last change, and a bounded log of deletions.
// The trees are copied on write; a copy is frozen together with the state.
type traces struct {
	recent *btree.BTreeG[trace]  // objects and graves, by revision and key
	graves *btree.BTreeG[*grave] // by key
	floor  object.Revision       // nothing is forgotten after this revision
	gaps   []gap                 // oldest first; replaced, never changed

	// What follows belongs to the writer; a frozen copy does not have it.

	limit int      // of graves
	dug   []*grave // in the order in which they were dug, some that are gone among them
}

func newTraces(floor object.Revision, limit int) traces {
	noLocks := btree.Options{NoLocks: true}
	return traces{
		recent: btree.NewBTreeGOptions(func(a, b trace) bool {
			if a.at != b.at {
				return a.at < b.at
			}
			return a.key < b.key
		}, noLocks),
		graves: btree.NewBTreeGOptions(func(a, b *grave) bool { return a.key < b.key }, noLocks),
		floor:  floor,
		limit:  limit,
	}
}

// freeze returns a copy that does not change any more.
func (t *traces) freeze() traces {
	return traces{recent: t.recent.Copy(), graves: t.graves.Copy(), floor: t.floor, gaps: t.gaps}
}

// put notes an object in the place of old, which may be nil.
func (t *traces) put(old, o *object.Object) {
	if old == nil {
		if g, ok := t.graves.Delete(&grave{key: o.Key}); ok {
			t.recent.Delete(trace{at: g.at, key: g.key})
		}
	} else {
		t.recent.Delete(trace{at: old.ModRevision, key: old.Key})
	}
	t.recent.Set(trace{at: o.ModRevision, key: o.Key, object: o})
}

// bury notes the deletion of an object.
func (t *traces) bury(old *object.Object, at object.Revision) {
	t.recent.Delete(trace{at: old.ModRevision, key: old.Key})
	t.recent.Set(trace{at: at, key: old.Key})
	t.dig(&grave{key: old.Key, at: at})
}

// dig adds a grave and forgets the oldest ones beyond the limit.
func (t *traces) dig(g *grave) {
	t.graves.Set(g)
	t.dug = append(t.dug, g)
	isCurrent := func(g *grave) bool {
		current, ok := t.graves.Get(g)
		return ok && current == g
	}
	for t.graves.Len() > t.limit {
		oldest := t.dug[0]
		t.dug = t.dug[1:]
		if !isCurrent(oldest) {
			continue // the key has come back, and may have been deleted again
		}
		t.graves.Delete(oldest)
		t.recent.Delete(trace{at: oldest.at, key: oldest.key})
		t.floor = max(t.floor, oldest.at)
	}
	if len(t.dug) > 2*t.graves.Len()+64 {
		t.dug = slices.DeleteFunc(slices.Clone(t.dug), func(g *grave) bool { return !isCurrent(g) })
	}
}

// jump notes a gap.
func (t *traces) jump(after, until object.Revision) {
	gaps := append(slices.Clone(t.gaps), gap{after, until})
	if len(gaps) > maxGaps {
		t.floor = max(t.floor, gaps[0].until)
		gaps = gaps[1:]
	}
	t.gaps = gaps
}

// covers reports whether it is known what became of every key since the revision.
func (t *traces) covers(after object.Revision) bool {
	if after < t.floor {
		return false
	}
	return !slices.ContainsFunc(t.gaps, func(g gap) bool { return g.after < after && after < g.until })
}

// Difference is what became of a key since an older revision.
type Difference struct {
	Mark                  // the key and the revision of its last change
	Object *object.Object // as it is now; nil: deleted
}

// Deltable reports whether [State.Since] can tell what happened after the
// revision.
func (s *State) Deltable(after object.Revision) bool { return s.traces.covers(after) }

// Mark is a place among differences, which are in order of revision and key.
type Mark struct {
	At  object.Revision
	Key object.Key
}

// Since returns what became of the keys of the scope that changed after the
// revision, in order of their last change. Among them are those that came and went
// since: who was on the way from that revision to a later one when it was interrupted
// may have them. It begins behind the mark, so that
// nothing has to be kept by those who read a part at a time. The revision must be
// one of which [State.Deltable] says yes.
func (s *State) Since(after object.Revision, scope object.Scope, behind Mark) iter.Seq[Difference] {
	return func(yield func(Difference) bool) {
		behind.At = max(behind.At, after)
		if few := s.fewSince(behind, scope); few != nil {
			for _, t := range few {
				if !yield(t.difference()) {
					return
				}
			}
			return
		}
		s.traces.recent.Ascend(trace{at: behind.At, key: behind.Key}, func(t trace) bool {
			if !isBehind(t, behind) || !scope.Contains(t.key) {
				return true
			}
			return yield(t.difference())
		})
	}
}

// isBehind reports whether t comes behind the mark. Behind a revision alone, which
// has no key, comes what is newer.
func isBehind(t trace, m Mark) bool {
	return t.at > m.At || t.at == m.At && m.Key != "" && t.key > m.Key
}

// fewSince returns the traces behind the mark in a scope that has fewer keys than
// there are traces, else nil: it walks over both, a step at a time, to find out.
func (s *State) fewSince(behind Mark, scope object.Scope) []trace {
	few := []trace{}
	recent := s.traces.recent.Iter()
	defer recent.Release()
	objects := s.objects.Iter()
	defer objects.Release()
	graves := s.traces.graves.Iter()
	defer graves.Release()
	more := recent.Seek(trace{at: behind.At, key: behind.Key})
	moreObjects := objects.Seek(&object.Object{Key: scope.First()})
	moreGraves := graves.Seek(&grave{key: scope.First()})
	for ; more; more = recent.Next() {
		var t trace
		switch {
		case moreObjects && scope.Contains(objects.Item().Key):
			o := objects.Item()
			t = trace{at: o.ModRevision, key: o.Key, object: o}
			moreObjects = objects.Next()
		case moreGraves && scope.Contains(graves.Item().key):
			g := graves.Item()
			moreGraves = graves.Next()
			t = trace{at: g.at, key: g.key}
		default:
			slices.SortFunc(few, func(a, b trace) int {
				return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key))
			})
			return few
		}
		if isBehind(t, behind) {
			few = append(few, t)
		}
	}
	return nil
}

func (t trace) difference() Difference {
	return Difference{Mark: Mark{At: t.at, Key: t.key}, Object: t.object}
}
