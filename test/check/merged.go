package check

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// mergedRight checks the events of complete groups of a watcher with merged
// delivery against what is left when the truth is merged.
func mergedRight(h *History, t *Truth, v *verdict) {
	for _, g := range groups(walk(h), live, replay) {
		if !g.complete {
			incompleteRight(h, t, g, v)
			continue
		}
		want := h.merged(t, g.from, g.to)
		came := map[object.Key]*Event{}
		for s, e := range g.events {
			w, ok := want[e.Object.Key]
			if !ok && s.mode == replay && e.Type == object.Deleted {
				w, ok = h.passed(t, e.Object.Key, g.from, g.to)
			}
			switch other := came[e.Object.Key]; {
			case !h.Scope.Contains(e.Object.Key):
				v.broken(s.place, "%v is outside of the scope %v", e, h.Scope)
			case other != nil:
				v.broken(s.place, "%v is not merged with %v", e, other)
			case !ok && e.revision() <= g.from:
				// Bookmarkable's or unique's.
			case !ok:
				v.broken(s.place, "%v should not be there: nothing is left of %q between %d and %d", e, e.Object.Key, g.from, g.to)
			default:
				if e.Type == object.Deleted && h.left(t, e.Object.Key, e.revision(), g.to) {
					// Where it left the view and changed out of sight, or was
					// deleted in a gap, more than one revision is right.
					w.Object.ModRevision = e.revision()
				}
				if diff := wrong(&w, e); diff != "" {
					v.broken(s.place, "%v %s", e, diff)
				}
			}
			came[e.Object.Key] = e
		}
	}
}

// incompleteRight checks the events of a group that never became complete, of
// which it is not known where it would have led to: each is of a change that
// happened, or that crossing a gap is.
func incompleteRight(h *History, t *Truth, g *group, v *verdict) {
	for s, e := range g.events {
		c := t.at[version{e.Object.Key, e.revision()}]
		if c == nil {
			if !h.crossesMerged(t, e) {
				v.broken(s.place, "%v never happened", e)
			}
			continue
		}
		want, ok := h.event(c)
		if !ok {
			if e.Type == object.Deleted && !h.sees(c.New) {
				continue // it left the view before, and changed out of sight
			}
			v.broken(s.place, "%v is not for a watcher of %s", e, h.interest())
			continue
		}
		// How it is merged with others is not known.
		want.Type, want.Previous = e.Type, e.Previous
		if e.Type == object.Deleted {
			want.Object = e.Object
		}
		if diff := wrong(&want, e); diff != "" {
			v.broken(s.place, "%v %s", e, diff)
		}
	}
}

// crosses reports whether an event is what crossing one of the gaps is.
func (h *History) crosses(t *Truth, e *Event) bool {
	for _, g := range t.Gaps {
		for _, want := range h.crossing(t, g)[e.Object.Key] {
			if wrong(&want, e) == "" {
				return true
			}
		}
	}
	return false
}

// crossesMerged reports whether an event may be what is left of crossing one of the
// gaps and of what happened before.
func (h *History) crossesMerged(t *Truth, e *Event) bool {
	for _, g := range t.Gaps {
		for _, want := range h.crossing(t, g)[e.Object.Key] {
			if want.revision() != e.revision() {
				continue
			}
			want.Type, want.Previous = e.Type, e.Previous
			if e.Type == object.Deleted {
				want.Object = e.Object
			}
			if wrong(&want, e) == "" {
				return true
			}
		}
	}
	return false
}

// deltaRight checks the events of every DELTA.
func deltaRight(h *History, t *Truth, v *verdict) {
	for _, g := range groups(walk(h), delta) {
		var to map[object.Key]became
		if g.complete {
			to = h.delta(t, g.from, g.to)
		}
		for s, e := range g.events {
			if !h.Scope.Contains(e.Object.Key) {
				v.broken(s.place, "%v is outside of the scope %v", e, h.Scope)
				continue
			}
			if e.revision() <= g.from {
				continue // bookmarkable's or unique's
			}
			b, ok := to[e.Object.Key]
			if !g.complete {
				// Where it would have led to is not known, but each event is
				// of a change that happened.
				b, ok = h.deltaOf(t, g.from, e)
			}
			if !ok {
				v.broken(s.place, "%v never happened", e)
				continue
			}
			want := b.Event
			if e.Type == object.Deleted && want.Type == object.Deleted {
				// Of a deletion in a gap the server knows only that it was
				// before the end.
				for _, gap := range t.Gaps {
					if !gap.within(want.revision()) {
						continue
					}
					if e.revision() == gap.Until {
						want.Object.ModRevision = gap.Until
					}
					// What came and went in it has not been seen, only what was
					// deleted before, be it in another gap.
					before := t.last(e.Object.Key, gap.After)
					if before != nil && before.New == nil && (e.revision() == before.Revision || h.hides(t, before.Revision, e.revision())) {
						want.Object.ModRevision = e.revision()
					}
				}
			}
			if diff := wrong(&want, e); diff != "" {
				v.broken(s.place, "%v of a DELTA %s", e, diff)
			}
		}
	}
}

// deltaOf returns what an event of a DELTA has to be if the DELTA goes as far as
// the event does.
func (h *History) deltaOf(t *Truth, from object.Revision, e *Event) (became, bool) {
	c := t.last(e.Object.Key, e.revision())
	if c == nil || c.Revision <= from || c.Revision != e.revision() && !hidden(t.Gaps, c.Revision) {
		return became{}, false
	}
	return h.became(t, e.Object.Key, from, e.revision()), true
}

// end returns the place of the last message of the group.
func (g *group) end() place { return g.steps[len(g.steps)-1].place }

// sorted returns events in order of revision, for messages that do not change from
// run to run.
func sorted(events map[object.Key]Event) []Event {
	return slices.SortedFunc(maps.Values(events), func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.revision(), b.revision()), cmp.Compare(a.Object.Key, b.Object.Key))
	})
}
