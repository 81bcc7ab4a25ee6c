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

// naive is what a cacher that has followed a store since a revision has to know,
// kept in the plainest way there is: nothing is ever forgotten, and what the cacher
// may have forgotten is computed from everything when somebody asks.
type naive struct {
	limits     cacher.WindowLimits
	tombstones int

	states []map[object.Key]*object.Object // at each revision, beginning with 0
	from   object.Revision                 // the state at this revision was listed
	at     object.Revision                 // followed up to here
	told   []told                          // what came since
	gaps   []jump                          // what a relist has jumped over, oldest first

	graves []grave         // of the keys that are gone, as far as the cacher can know, oldest first
	floor  object.Revision // up to here some are forgotten
	since  time.Time       // the state was published at this moment or later
}

// grave says when a key was deleted.
type grave struct {
	key object.Key
	at  object.Revision
}

// told is a change as the cacher learned it. It arrived between two moments.
type told struct {
	object.Change
	earliest, latest time.Time
}

// jump is a piece of history of which the cacher knows only the difference between
// its ends.
type jump struct{ after, until object.Revision }

func newNaive(limits cacher.WindowLimits, tombstones int, from object.Revision) *naive {
	return &naive{
		limits: limits, tombstones: tombstones, from: from, at: from,
		states: []map[object.Key]*object.Object{{}},
	}
}

// learn extends the states by what has happened in the store.
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
	o := &object.Object{
		Key: r.Key, Value: r.Value, ContentType: object.ContentBinary,
		CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version,
	}
	wire.Preencode(o)
	return o
}

// now returns the newest state.
func (n *naive) now() map[object.Key]*object.Object { return n.states[n.at] }

// follow goes on to a revision by every change on the way.
func (n *naive) follow(to object.Revision, earliest, latest time.Time) {
	for n.at < to {
		n.step(n.at+1, earliest, latest)
	}
}

// jump goes on to a revision by the difference alone.
func (n *naive) jump(to object.Revision, earliest, latest time.Time) {
	n.gaps = append(n.gaps, jump{n.at, to})
	n.step(to, earliest, latest)
}

func (n *naive) step(to object.Revision, earliest, latest time.Time) {
	before, after := n.states[n.at], n.states[to]
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	// What was jumped over is told in order of revision, deletions at its end.
	made := func(key object.Key) object.Revision {
		if after[key] == nil {
			return to
		}
		return after[key].ModRevision
	}
	for _, key := range slices.SortedFunc(maps.Keys(keys), func(a, b object.Key) int {
		return cmp.Or(cmp.Compare(made(a), made(b)), cmp.Compare(a, b))
	}) {
		if before[key] == after[key] {
			continue
		}
		c := told{object.Change{Revision: to, Key: key, Old: before[key], New: after[key]}, earliest, latest}
		n.told = append(n.told, c)
		n.buried(&c.Change)
	}
	n.at = to
}

// relisted returns where the last jump has led.
func (n *naive) relisted() object.Revision {
	if len(n.gaps) == 0 {
		return 0
	}
	return n.gaps[len(n.gaps)-1].until
}

// rememberedGaps is how many jumps are remembered; an older one hides everything
// before its end.
const rememberedGaps = 16

// deltable reports whether it has to be known what became of everything since the
// revision: nothing is hidden from there on, and no more keys were deleted than
// there is room for.
func (n *naive) deltable(after object.Revision) bool {
	for i, g := range n.gaps {
		within := g.after < after && after < g.until
		forgotten := after < g.until && i < len(n.gaps)-rememberedGaps
		if within || forgotten {
			return false
		}
	}
	return after >= n.from && after >= n.floor
}

// buried notes what a change has deleted, or brought back, as far as the cacher can
// know.
func (n *naive) buried(c *object.Change) {
	n.graves = slices.DeleteFunc(n.graves, func(g grave) bool { return g.key == c.Key })
	if c.New == nil {
		n.graves = append(n.graves, grave{c.Key, c.Revision})
	}
	if len(n.graves) > n.tombstones {
		n.floor = max(n.floor, n.graves[0].at)
		n.graves = n.graves[1:]
	}
}

// became is what has to be said of a key that changed after a revision.
type became struct {
	cacher.ChangeID
	object *object.Object
}

// changed returns what became of the keys of the scope that changed after a
// revision.
func (n *naive) changed(after object.Revision, scope object.Scope) []became {
	var all []became
	say := func(at object.Revision, key object.Key, o *object.Object) {
		if scope.Contains(key) {
			all = append(all, became{ChangeID: cacher.ChangeID{At: at, Key: key}, object: o})
		}
	}
	for key, o := range n.now() {
		if o.ModRevision > after {
			say(o.ModRevision, key, o)
		}
	}
	for _, g := range n.graves {
		if g.at > after {
			say(g.at, g.key, nil)
		}
	}
	slices.SortFunc(all, func(a, b became) int { return compareMarks(a.ChangeID, b.ChangeID) })
	return all
}

// objects returns what a scope has at a revision from a key on, in order of keys.
func (n *naive) objects(at object.Revision, scope object.Scope, start object.Key) []*object.Object {
	var all []*object.Object
	for _, key := range slices.Sorted(maps.Keys(n.states[at])) {
		if key >= start && scope.Contains(key) {
			all = append(all, n.states[at][key])
		}
	}
	return all
}

// size returns the bytes that changes account for.
func size(changes []told) int {
	sum := 0
	for i := range changes {
		sum += changes[i].Size()
	}
	return sum
}

// revisionAt returns the changes of the revision that begins at index i.
func (n *naive) revisionAt(i int) []told {
	end := i
	for end < len(n.told) && n.told[end].Revision == n.told[i].Revision {
		end++
	}
	return n.told[i:end]
}
