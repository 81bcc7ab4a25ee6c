package check

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// checkMerged checks the events of a watcher whose events are merged. It compares each
// complete group with the merged truth.
func checkMerged(h *History, t *Truth, v *violations) {
	for _, g := range groups(walk(h), live, replay) {
		if !g.complete {
			checkIncomplete(h, t, g, v)
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
				v.add(s.place, "%v is outside of the scope %v", e, h.Scope)
			case other != nil:
				v.add(s.place, "%v is not merged with %v", e, other)
			case !ok && e.Revision <= g.from:
				// Bookmarkable or unique reports it.
			case !ok:
				v.add(s.place, "%v should not be there: nothing is left of %q between %d and %d", e, e.Object.Key, g.from, g.to)
			default:
				if diff := wrong(&w, e); diff != "" {
					v.add(s.place, "%v %s", e, diff)
				}
			}
			came[e.Object.Key] = e
		}
	}
}

// checkIncomplete checks the events of a group that never became complete. Its end is not
// known, so each event only has to belong to a change that happened.
func checkIncomplete(h *History, t *Truth, g *group, v *violations) {
	for s, e := range g.events {
		c := t.at[version{e.Object.Key, e.Revision}]
		if c == nil {
			v.add(s.place, "%v never happened", e)
			continue
		}
		want, ok := h.event(c)
		if !ok {
			v.add(s.place, "%v is not for a watcher of %s", e, h.interest())
			continue
		}
		// The other changes that were merged are not known.
		want.Type, want.Previous = e.Type, e.Previous
		if e.Type == object.Deleted {
			want.Object = e.Object
		}
		if diff := wrong(&want, e); diff != "" {
			v.add(s.place, "%v %s", e, diff)
		}
	}
}

// checkDeltas checks the events of every DELTA.
func checkDeltas(h *History, t *Truth, v *violations) {
	for _, g := range groups(walk(h), delta) {
		var to map[object.Key]became
		if g.complete {
			to = h.delta(t, g.from, g.to)
		}
		for s, e := range g.events {
			if !h.Scope.Contains(e.Object.Key) {
				v.add(s.place, "%v is outside of the scope %v", e, h.Scope)
				continue
			}
			if e.Revision <= g.from {
				continue // bookmarkable or unique reports it
			}
			b, ok := to[e.Object.Key]
			if !g.complete {
				// The end of the DELTA is not known, but each event belongs to a
				// change that happened.
				b, ok = h.deltaOf(t, g.from, e)
			}
			if !ok {
				v.add(s.place, "%v never happened", e)
				continue
			}
			want := b.Event
			if e.Type == object.Deleted && want.Type == object.Deleted {
				// The server knows of a deletion in a gap only that it happened
				// before the end.
				for _, gap := range t.Gaps {
					if !gap.within(want.Revision) {
						continue
					}
					if e.Revision == gap.Until {
						want.Revision = gap.Until
					}
					// The server has not seen a key that was created and deleted
					// in the gap, but a deletion before, perhaps in another gap.
					before := t.last(e.Object.Key, gap.After)
					if before != nil && before.New == nil && (e.Revision == before.Revision || t.hiddenUntil(before.Revision, e.Revision)) {
						want.Revision = e.Revision
					}
				}
			}
			if diff := wrong(&want, e); diff != "" {
				v.add(s.place, "%v of a DELTA %s", e, diff)
			}
		}
	}
}

// deltaOf returns the expected event of a key in a DELTA that ends at the revision of e.
func (h *History) deltaOf(t *Truth, from object.Revision, e *Event) (became, bool) {
	c := t.last(e.Object.Key, e.Revision)
	if c == nil || c.Revision <= from || c.Revision != e.Revision && !t.hidden(c.Revision) {
		return became{}, false
	}
	return h.became(t, e.Object.Key, from, e.Revision), true
}

// end returns the place of the last message of the group.
func (g *group) end() place { return g.steps[len(g.steps)-1].place }

// sorted returns the events in order of revision, so that error messages do not vary from
// run to run.
func sorted(events map[object.Key]Event) []Event {
	return slices.SortedFunc(maps.Values(events), func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Object.Key, b.Object.Key))
	})
}
