package check

import "github.com/fanoutd/fanoutd/internal/object"

// Ordered checks that the revisions of events and positions never decrease on a stream. The
// objects of a snapshot come in order of keys instead, and its positions are zero until it
// is complete. A catch-up inside a stream starts again from the position.
func Ordered(h *History, _ *Truth) error {
	v := violations{history: h, guarantee: "ordered"}
	var event, position object.Revision
	for _, s := range walk(h) {
		switch {
		case s.opens:
			event, position = 0, 0
		case s.Kind == object.CatchUpBegin:
			event = min(event, s.from)
		}
		if s.mode != reset {
			for i := range s.Events {
				e := &s.Events[i]
				if e.Revision < event {
					v.add(s.place, "%v comes after an event of revision %d", e, event)
				}
				event = max(event, e.Revision)
			}
		}
		if s.mode == reset && s.Kind != object.Synced {
			continue
		}
		if s.Position.Revision < position {
			v.add(s.place, "position %d comes after position %d", s.Position.Revision, position)
		}
		position = max(position, s.Position.Revision)
	}
	return v.err()
}

// Unique checks that no event comes twice on a stream, nor across a resume at the last
// position.
func Unique(h *History, _ *Truth) error {
	v := violations{history: h, guarantee: "unique"}
	for _, a := range arrivals(walk(h)) {
		if a.again {
			v.add(a.place, "%v comes again", a.Event)
		}
	}
	for _, g := range groups(walk(h), delta) {
		seen := map[object.Key]*Event{}
		for s, e := range g.events {
			if before := seen[e.Object.Key]; before != nil && before.Revision != e.Revision {
				v.add(s.place, "%v comes after %v in one DELTA, which has the latest only", e, before)
			}
			seen[e.Object.Key] = e
		}
	}
	return v.err()
}
