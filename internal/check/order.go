package check

import "github.com/fanoutd/fanoutd/internal/object"

// Ordered: revisions never decrease on a stream, neither those of events nor
// those of positions. The objects of a snapshot come in order of keys instead,
// and its positions are zero until it is complete.
func Ordered(h *History, _ *Truth) error {
	v := verdict{history: h, guarantee: "ordered"}
	var event, position object.Revision
	for _, s := range walk(h) {
		if s.opens {
			event, position = 0, 0
		}
		if s.mode != reset {
			for i := range s.Events {
				e := &s.Events[i]
				if e.revision() < event {
					v.broken(s.place, "%v comes after an event of revision %d", e, event)
				}
				event = max(event, e.revision())
			}
		}
		if s.mode == reset && s.Kind != object.Synced {
			continue
		}
		if s.Position.Revision < position {
			v.broken(s.place, "position %d comes after position %d", s.Position.Revision, position)
		}
		position = max(position, s.Position.Revision)
	}
	return v.err()
}

// Unique: no event comes twice on a stream, nor across a resume at the last
// position.
func Unique(h *History, _ *Truth) error {
	v := verdict{history: h, guarantee: "unique"}
	for _, a := range arrivals(walk(h)) {
		if a.again {
			v.broken(a.place, "%v comes again", a.Event)
		}
	}
	return v.err()
}

// Atomic: the events of one revision come in one message, or in messages that
// follow each other and are marked partial except the last, and a position never
// points inside a revision.
func Atomic(h *History, _ *Truth) error {
	v := verdict{history: h, guarantee: "atomic"}
	steps := walk(h)
	for i := range steps {
		s := &steps[i]
		if s.mode == reset || len(s.Events) == 0 {
			continue
		}
		last := s.Events[len(s.Events)-1].revision()
		if !s.Partial {
			if s.Position.Revision < last {
				v.broken(s.place, "position %d lies before the event of revision %d that the message completes", s.Position.Revision, last)
			}
			continue
		}
		if first := s.Events[0].revision(); first != last {
			v.broken(s.place, "a partial message has events of revisions %d and %d", first, last)
		}
		if s.Position.Revision >= last {
			v.broken(s.place, "position %d points inside revision %d, of which more is to come", s.Position.Revision, last)
		}
		if i+1 < len(steps) && steps[i+1].stream == s.stream && !continues(&steps[i+1], last) {
			v.broken(s.place, "more of revision %d is announced, but does not follow", last)
		}
	}

	type revision struct {
		run int
		object.Revision
	}
	home := map[revision]*step{} // the last message that brought events of a revision
	for _, a := range arrivals(steps) {
		if a.again {
			continue
		}
		r := revision{a.run, a.revision()}
		before := home[r]
		home[r] = a.step
		// An announced rest may come in the next message. A new stream sends an
		// incomplete revision from its beginning.
		if before != nil && before.place != a.place && !before.Partial {
			v.broken(a.place, "%v comes apart from the events of its revision in %v", a.Event, before.place)
		}
	}
	return v.err()
}

// continues reports whether a message behind a partial one does what it may:
// bring more of the same revision, give the stream up, or begin a RESET, which
// replaces what came before.
func continues(s *step, r object.Revision) bool {
	if len(s.Events) == 0 {
		return s.Kind == object.Draining || s.CatchUp == object.Reset
	}
	return s.Events[0].revision() == r
}
