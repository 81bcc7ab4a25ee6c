package cacher_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// naive is a model of a cacher that has followed a store since a revision. It is as simple
// as possible: it forgets nothing, and computes what the cacher may have forgotten from the
// whole history.
type naive struct {
	limits        cacher.WindowLimits
	maxTombstones int

	states  []map[object.Key]*object.Object // at each revision, beginning with 0
	from    object.Revision                 // the fill listed this revision
	at      object.Revision                 // the cacher has reached this revision
	oldest  object.Revision                 // the end of the last relist, or from
	changes []arrivedChange                 // since oldest
	gaps    []gap                           // skipped by relists, oldest first

	tombstones []tombstone     // that the cacher must have, oldest first
	floor      object.Revision // tombstones up to here are incomplete
	since      time.Time       // the state was published at this time or later
}

// tombstone is the deletion of a key.
type tombstone struct {
	key object.Key
	at  object.Revision
}

// arrivedChange is a change as the cacher received it, at some time between two limits.
type arrivedChange struct {
	object.Change
	earliest, latest time.Time
}

// gap is a range of revisions. The cacher knows only the difference between its ends.
type gap struct{ after, until object.Revision }

func newNaive(limits cacher.WindowLimits, maxTombstones int, from object.Revision) *naive {
	return &naive{
		limits: limits, maxTombstones: maxTombstones, from: from, at: from, oldest: from,
		states: []map[object.Key]*object.Object{{}},
	}
}

// learn adds the states of the store since the last call.
func (n *naive) learn(history [][]object.Record) {
	for _, records := range history[len(n.states)-1:] {
		state := maps.Clone(n.states[len(n.states)-1])
		for _, r := range records {
			delete(state, r.Key)
			if !r.Deleted {
				state[r.Key] = built(r)
			}
		}
		n.states = append(n.states, state)
	}
}

func built(r object.Record) *object.Object {
	return wire.Preencode(object.Decoded{
		Key: r.Key, Value: r.Value, ContentType: object.ContentBinary,
		CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version,
	})
}

// now returns the newest state.
func (n *naive) now() map[object.Key]*object.Object { return n.states[n.at] }

// follow advances to a revision by every single change.
func (n *naive) follow(to object.Revision, earliest, latest time.Time) {
	for n.at < to {
		for _, c := range n.changesTo(n.at + 1) {
			n.changes = append(n.changes, arrivedChange{c, earliest, latest})
			n.updateTombstones(&c)
		}
		n.at++
	}
}

// relist advances to a revision by the difference alone. The window starts empty.
func (n *naive) relist(to object.Revision) {
	n.gaps = append(n.gaps, gap{n.at, to})
	all := n.changesTo(to)
	slices.SortStableFunc(all, func(a, b object.Change) int { return cmp.Compare(deletions(a), deletions(b)) })
	for _, c := range all {
		n.updateTombstones(&c)
	}
	n.at, n.oldest, n.changes = to, to, nil
}

// deletions returns 1 for a deletion, else 0.
func deletions(c object.Change) int {
	if c.New == nil {
		return 1
	}
	return 0
}

// changesTo returns the changes that lead from the present state to another one, in order of
// keys.
func (n *naive) changesTo(to object.Revision) []object.Change {
	before, after := n.states[n.at], n.states[to]
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	var all []object.Change
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if before[key] != after[key] {
			all = append(all, object.Change{Revision: to, Key: key, Old: before[key], New: after[key]})
		}
	}
	return all
}

// relisted returns the end of the last gap.
func (n *naive) relisted() object.Revision {
	if len(n.gaps) == 0 {
		return 0
	}
	return n.gaps[len(n.gaps)-1].until
}

// rememberedGaps is the number of gaps that the cacher remembers. An older one hides
// everything before its end.
const rememberedGaps = 16

// hasDelta reports whether the cacher must know the last change of every key since the
// revision: no gap hides one, and no tombstone since was dropped.
func (n *naive) hasDelta(after object.Revision) bool {
	for i, g := range n.gaps {
		within := g.after < after && after < g.until
		forgotten := after < g.until && i < len(n.gaps)-rememberedGaps
		if within || forgotten {
			return false
		}
	}
	return after >= n.from && after >= n.floor
}

// updateTombstones applies a change to the tombstones.
func (n *naive) updateTombstones(c *object.Change) {
	n.tombstones = slices.DeleteFunc(n.tombstones, func(t tombstone) bool { return t.key == c.Key })
	if c.New == nil {
		n.tombstones = append(n.tombstones, tombstone{c.Key, c.Revision})
	}
	if len(n.tombstones) > n.maxTombstones {
		n.floor = max(n.floor, n.tombstones[0].at)
		n.tombstones = n.tombstones[1:]
	}
}

// difference returns the last change of each key of the scope that changed after a
// revision.
func (n *naive) difference(after object.Revision, scope object.Scope) []cacher.Difference {
	var all []cacher.Difference
	add := func(at object.Revision, key object.Key, o *object.Object) {
		if scope.Contains(key) {
			all = append(all, cacher.Difference{ChangeID: cacher.ChangeID{At: at, Key: key}, Object: o})
		}
	}
	for key, o := range n.now() {
		if o.ModRevision > after {
			add(o.ModRevision, key, o)
		}
	}
	for _, t := range n.tombstones {
		if t.at > after {
			add(t.at, t.key, nil)
		}
	}
	slices.SortFunc(all, func(a, b cacher.Difference) int { return compareIDs(a.ChangeID, b.ChangeID) })
	return all
}

// objects returns the objects of a scope at a revision, from a key on, in order of keys.
func (n *naive) objects(at object.Revision, scope object.Scope, start object.Key) []*object.Object {
	var all []*object.Object
	for _, key := range slices.Sorted(maps.Keys(n.states[at])) {
		if key >= start && scope.Contains(key) {
			all = append(all, n.states[at][key])
		}
	}
	return all
}

// size returns the size of changes as the window counts it.
func size(changes []arrivedChange) int {
	sum := 0
	for i := range changes {
		sum += changes[i].Size()
	}
	return sum
}

// revisionAt returns the changes of the revision that begins at index i.
func (n *naive) revisionAt(i int) []arrivedChange {
	end := i
	for end < len(n.changes) && n.changes[end].Revision == n.changes[i].Revision {
		end++
	}
	return n.changes[i:end]
}
