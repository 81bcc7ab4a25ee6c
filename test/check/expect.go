package check

import (
	"iter"
	"slices"

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
		c := Change{Key: key, Old: t.object(key, from), New: t.object(key, to)}
		if left := h.left(t, key, from, to); left != nil {
			c.Revision = left.Revision
		}
		if e, ok := h.event(&c); ok {
			all[key] = e
		}
	}
	return all
}

// left returns the last change between two positions with which an object left the view, or
// nil.
func (h *History) left(t *Truth, key object.Key, from, to object.Revision) *Change {
	var left *Change
	for _, c := range t.byKey[key] {
		if from < c.Revision && c.Revision <= to && h.sees(c.Old) && !h.sees(c.New) {
			left = c
		}
	}
	return left
}

// passed returns the deletion of an object that the watcher saw only between two positions.
// A replay may contain it: the watcher may know the object from a message that never became
// complete.
func (h *History) passed(t *Truth, key object.Key, from, to object.Revision) (Event, bool) {
	left := h.left(t, key, from, to)
	if left == nil || h.sees(t.object(key, to)) {
		return Event{}, false
	}
	return h.event(left)
}

// hidden reports whether a gap hides the revision.
func (t *Truth) hidden(r object.Revision) bool {
	return slices.ContainsFunc(t.Gaps, func(g Gap) bool { return g.within(r) })
}

// hiddenUntil reports whether a gap that ends at the revision until hides the revision r.
func (t *Truth) hiddenUntil(r, until object.Revision) bool {
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
func (h *History) latest(o *object.Decoded, since object.Revision) Event {
	e := Event{Type: object.Modified, Revision: o.ModRevision, Object: h.image(o)}
	if o.CreateRevision > since {
		e.Type = object.Added
	}
	return e
}

// gone returns the event of a DELTA for an object that the watcher does not see.
func gone(key object.Key, at object.Revision) Event {
	return Event{Type: object.Deleted, Revision: at, Object: object.Decoded{Key: key}}
}
