package feed

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// MergedChange is one change that stands for all changes of a key.
type MergedChange struct {
	object.Change              // from the object before the first change to the object after the last
	Event         object.Event // the event that the merged change causes

	Arrived   time.Time      // when the first change came from the store
	lastMatch *object.Object // the latest intermediate version of the object that the selector matched; nil: none
	order     int            // number of the last change, for sorting
}

// Merge merges all changes of a key into one. It ignores changes after the revision upTo and
// changes that the interest does not see. The merged changes are in the order of each key's
// last change. Merge leaves out merged changes that cause no event.
//
// In a replay, there is also a DELETED event for a key that was first created and then deleted.
// The client may have the object, if the client was cut off between two messages of one revision.
func (i *Interest) Merge(changes iter.Seq2[*object.Change, time.Time], upTo object.Revision, replay bool) []MergedChange {
	byKey := map[object.Key]MergedChange{}
	order := 0
	for c, arrived := range changes {
		if c.Revision > upTo {
			break
		}
		if !i.Scope.Contains(c.Key) || !i.Picks(c.Old) && !i.Picks(c.New) {
			// Changes that the interest does not see do not count. If an object stops matching and is
			// deleted later, its DELETED event has the revision at which it stopped matching.
			continue
		}
		order++
		m := MergedChange{Change: *c, order: order, Arrived: arrived}
		if before, ok := byKey[c.Key]; ok {
			m.Old, m.lastMatch, m.Arrived = before.Old, before.lastMatch, before.Arrived
			if i.Picks(c.Old) {
				m.lastMatch = c.Old
			}
		}
		byKey[c.Key] = m
	}
	seen := make([]MergedChange, 0, len(byKey))
	for _, m := range byKey {
		e, ok := i.See(&m.Change)
		if !ok && replay && m.lastMatch != nil {
			m.Old = m.lastMatch
			e, ok = i.See(&m.Change)
		}
		if ok {
			m.Event = e
			seen = append(seen, m)
		}
	}
	slices.SortFunc(seen, func(a, b MergedChange) int { return cmp.Compare(a.order, b.order) })
	return seen
}
