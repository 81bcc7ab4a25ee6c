package check

import (
	"iter"

	"github.com/fanoutd/fanoutd/internal/object"
)

// between returns all events of the watcher between two positions, in order of revision.
func (h *History) between(t *Truth, after, through object.Revision) []Event {
	var all []Event
	for c := range t.Between(h.Scope, after, through) {
		if e, ok := h.event(c); ok {
			all = append(all, e)
		}
	}
	return all
}

// gaps returns the gaps that lie between two positions.
func (t *Truth) gaps(after, through object.Revision) []Gap {
	var all []Gap
	for _, g := range t.Gaps {
		if after <= g.After && g.Until <= through {
			all = append(all, g)
		}
	}
	return all
}

// crossing returns, by key, the events that are allowed for the difference across a gap. It
// is not known when an object stopped matching inside the gap: the event may have the
// revision of the end of the gap, or that of the object's last change.
func (h *History) crossing(t *Truth, g Gap) map[object.Key][]Event {
	all := map[object.Key][]Event{}
	for key := range t.changedKeys(h.Scope, g.After, g.Until) {
		before, after := t.object(key, g.After), t.object(key, g.Until)
		if before == after {
			continue // created and deleted in the gap
		}
		e, ok := h.event(&object.Change{Revision: g.Until, Key: key, Old: before, New: after})
		if !ok {
			continue
		}
		all[key] = []Event{e}
		if e.Type == object.Deleted && after != nil {
			e.Revision = after.ModRevision
			all[key] = append(all[key], e)
		}
	}
	return all
}

// changedKeys returns the keys of the scope that changed after one revision and up to
// another.
func (t *Truth) changedKeys(scope object.Scope, after, through object.Revision) iter.Seq[object.Key] {
	return func(yield func(object.Key) bool) {
		seen := map[object.Key]bool{}
		for c := range t.Between(scope, after, through) {
			if !seen[c.Key] && !yield(c.Key) {
				return
			}
			seen[c.Key] = true
		}
	}
}

// merged returns, by key, the merged events between two positions: the change from the
// object at the first to the object at the second. Objects that were created and deleted in
// between have no event.
func (h *History) merged(t *Truth, from, to object.Revision) map[object.Key]Event {
	all := map[object.Key]Event{}
	for key := range t.changedKeys(h.Scope, from, to) {
		c := object.Change{Revision: t.last(key, to).Revision, Key: key, Old: t.object(key, from), New: t.object(key, to)}
		if e, ok := h.event(&c); ok {
			all[key] = e
		}
	}
	return all
}

// passed returns the deletion of an object that the watcher saw only between two positions.
// A replay may contain it: the watcher may know the object from a message that never became
// complete.
func (h *History) passed(t *Truth, key object.Key, from, to object.Revision) (Event, bool) {
	var leaves *object.Change
	for _, c := range t.byKey[key] {
		if from < c.Revision && c.Revision <= to && h.sees(c.Old) && !h.sees(c.New) {
			leaves = c
		}
	}
	if leaves == nil || h.sees(t.object(key, to)) {
		return Event{}, false
	}
	return h.event(leaves)
}

// left reports whether the watcher has not seen an object since its change at the revision
// at, until the revision through.
func (h *History) left(t *Truth, key object.Key, at, through object.Revision) bool {
	if t.at[version{key, at}] == nil {
		c := t.last(key, at)
		return c != nil && h.hides(t, c.Revision, at) && !h.sees(t.object(key, at))
	}
	for _, c := range t.byKey[key] {
		if at <= c.Revision && c.Revision <= through && h.sees(c.New) && !t.unseen(c) {
			return false
		}
	}
	return true
}

// unseen reports whether a gap hides a change and its result.
func (t *Truth) unseen(c *object.Change) bool {
	for _, g := range t.Gaps {
		if g.within(c.Revision) && t.object(c.Key, g.Until) != c.New {
			return true
		}
	}
	return false
}

// hides reports whether a gap that ends at the revision until hides the revision r.
func (h *History) hides(t *Truth, r, until object.Revision) bool {
	for _, g := range t.Gaps {
		if g.Until == until && g.within(r) {
			return true
		}
	}
	return false
}

// became is the expected event of a key in a DELTA.
type became struct {
	Event

	// optional says that the event may be missing, because the watcher does not have the
	// object.
	optional bool
}

// delta returns the expected events of a DELTA from one position to another, by key.
func (h *History) delta(t *Truth, from, to object.Revision) map[object.Key]became {
	all := map[object.Key]became{}
	for key := range t.changedKeys(h.Scope, from, to) {
		all[key] = h.became(t, key, from, to)
	}
	return all
}

// became returns the expected event of a changed key in a DELTA: the present object, or only
// the key if the object is deleted or does not match.
func (h *History) became(t *Truth, key object.Key, from, to object.Revision) became {
	if o := t.object(key, to); h.sees(o) {
		return became{Event: h.latest(o, from)}
	}
	return became{
		Event:    gone(key, t.last(key, to).Revision),
		optional: !h.sees(t.object(key, from)),
	}
}

// latest returns the event of a DELTA for an object that changed since a position.
func (h *History) latest(o *object.Object, since object.Revision) Event {
	e := Event{Type: object.Modified, Revision: o.ModRevision, Object: h.image(o)}
	if o.CreateRevision > since {
		e.Type = object.Added
	}
	return e
}

// gone returns the event of a DELTA for an object that the watcher does not see.
func gone(key object.Key, at object.Revision) Event {
	return Event{Type: object.Deleted, Revision: at, Object: object.Object{Key: key}}
}
