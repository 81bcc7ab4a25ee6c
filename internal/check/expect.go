package check

import (
	"cmp"
	"iter"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// between returns the events that lead the watcher from one position to another:
// every one of them, in order of revision. With across, a gap in between is
// crossed by the difference between its ends.
func (h *History) between(t *Truth, after, through object.Revision, across bool) []Event {
	var all []Event
	var gaps []Gap
	if across {
		gaps = t.gaps(after, through)
	}
	for c := range t.Between(h.Scope, after, through) {
		if slices.ContainsFunc(gaps, func(g Gap) bool { return g.within(c.Revision) }) {
			continue
		}
		if e, ok := h.event(c); ok {
			all = append(all, e)
		}
	}
	for _, g := range gaps {
		for _, e := range h.crossing(t, g) {
			all = append(all, e)
		}
	}
	if len(gaps) > 0 {
		slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.revision(), b.revision()) })
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

// crossing returns, by key, what crossing a gap is to the watcher.
func (h *History) crossing(t *Truth, g Gap) map[object.Key]Event {
	all := map[object.Key]Event{}
	for key := range t.changedKeys(h.Scope, g.After, g.Until) {
		before, after := t.object(key, g.After), t.object(key, g.Until)
		if before == after {
			continue // came and went
		}
		if e, ok := h.event(&object.Change{Revision: g.Until, Key: key, Old: before, New: after}); ok {
			all[key] = e
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

// merged returns what is left of events if they are merged per key: nothing where
// an object came and went, else one event that leads from what the watcher had
// before the first of them to what it has after the last.
func merged(events []Event) map[object.Key]Event {
	first, last := map[object.Key]*Event{}, map[object.Key]*Event{}
	for i := range events {
		e := &events[i]
		if first[e.Object.Key] == nil {
			first[e.Object.Key] = e
		}
		last[e.Object.Key] = e
	}
	all := map[object.Key]Event{}
	for key, e := range last {
		began, ended := first[key].Type, e.Type
		out := Event{Type: object.Modified, Object: e.Object, Previous: first[key].Previous}
		switch {
		case began == object.Added && ended == object.Deleted:
			continue
		case began == object.Added:
			out.Type = object.Added
		case ended == object.Deleted:
			out.Type = object.Deleted
		}
		all[key] = out
	}
	return all
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
