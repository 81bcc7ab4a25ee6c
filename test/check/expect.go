package check

import (
	"iter"

	"github.com/fanoutd/fanoutd/internal/object"
)

// between returns the events that lead the watcher from one position to another:
// every one of them, in order of revision.
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

// crossing returns, by key, what crossing a gap is to the watcher. Of an object
// that left the view in the gap it is not known when: it may be said to have left
// at the end, or when it became what it is at the end.
func (h *History) crossing(t *Truth, g Gap) map[object.Key][]Event {
	all := map[object.Key][]Event{}
	for key := range t.changedKeys(h.Scope, g.After, g.Until) {
		before, after := t.object(key, g.After), t.object(key, g.Until)
		if before == after {
			continue // came and went
		}
		e, ok := h.event(&object.Change{Revision: g.Until, Key: key, Old: before, New: after})
		if !ok {
			continue
		}
		all[key] = []Event{e}
		if e.Type == object.Deleted && after != nil {
			e.Object.ModRevision = after.ModRevision
			all[key] = append(all[key], e)
		}
	}
	return all
}

// changedKeys returns the keys of the scope that changed after one revision and up
// to another, each once.
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

// merged returns, by key, what is left of the events between two positions if they
// are merged: what leads from the object as it was at the first to the object as it
// is at the second. Nothing is left of what came and went.
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

// passed returns the deletion of an object that came into view after one position and
// left it before another. Who resumes may be told of it: it may have been told of the
// object by what never became complete.
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

// left reports whether an object that is not in view at revision through has not
// been since the revision at, when something happened to it.
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

// unseen reports whether a gap hides a change and what came of it.
func (t *Truth) unseen(c *object.Change) bool {
	for _, g := range t.Gaps {
		if g.within(c.Revision) && t.object(c.Key, g.Until) != c.New {
			return true
		}
	}
	return false
}

// hides reports whether a gap that ends at the revision until hides another.
func (h *History) hides(t *Truth, r, until object.Revision) bool {
	for _, g := range t.Gaps {
		if g.Until == until && g.within(r) {
			return true
		}
	}
	return false
}

// became is what a DELTA says of a key.
type became struct {
	Event

	// optional says that the watcher can do without: it does not have the object.
	optional bool
}

// delta returns, by key, what a DELTA from one position to another has to say and
// what it may say.
func (h *History) delta(t *Truth, from, to object.Revision) map[object.Key]became {
	all := map[object.Key]became{}
	for key := range t.changedKeys(h.Scope, from, to) {
		all[key] = h.became(t, key, from, to)
	}
	return all
}

// became returns what a DELTA from one position to another says of a key that has
// changed in between: the object as it is now, or the key alone of one that is gone
// or does not match.
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
	e := Event{Type: object.Modified, Object: h.image(o)}
	if o.CreateRevision > since {
		e.Type = object.Added
	}
	return e
}

// gone returns the event of a DELTA for an object that is not in the view.
func gone(key object.Key, at object.Revision) Event {
	return Event{Type: object.Deleted, Object: object.Object{Key: key, ModRevision: at}}
}
