package check

import "github.com/fanoutd/fanoutd/internal/object"

// Atomic checks that the events of one revision come in one message, or in consecutive
// messages that are all marked partial except the last, and that a position never points
// inside a revision. Merged events count as one revision.
func Atomic(h *History, t *Truth) error {
	v := violations{history: h, guarantee: "atomic"}
	steps := walk(h)
	for i := range steps {
		s := &steps[i]
		if s.mode == reset || s.mode == delta || len(s.Events) == 0 {
			continue
		}
		first, last := s.Events[0].Revision, s.Events[len(s.Events)-1].Revision
		if !s.Partial {
			if s.Position.Revision < last {
				v.add(s.place, "position %d lies before the event of revision %d that the message completes", s.Position.Revision, last)
			}
			continue
		}
		switch {
		case h.Latest && (s.Position.Revision < s.from || !h.nothingBetween(t, s.from, s.Position.Revision)):
			v.add(s.place, "position %d is not where the partial message began, %d", s.Position.Revision, s.from)
		case !h.Latest && first != last:
			v.add(s.place, "a partial message has events of revisions %d and %d", first, last)
		case !h.Latest && s.Position.Revision >= first:
			v.add(s.place, "position %d points inside revision %d, of which more is to come", s.Position.Revision, last)
		}
		if i+1 < len(steps) && steps[i+1].stream == s.stream && !h.continues(&steps[i+1], last) {
			v.add(s.place, "more of revision %d is announced, but does not follow", last)
		}
	}

	type revision struct {
		run int
		object.Revision
	}
	home := map[revision]*step{} // the last message that brought events of a revision
	for _, a := range arrivals(steps) {
		if a.again || a.mode == delta {
			continue
		}
		r := revision{a.run, a.Revision}
		before := home[r]
		home[r] = a.step
		// The rest of a partial message comes in the next one. A new stream repeats the
		// events after its position.
		again := before != nil && before.stream != a.stream && a.Revision > a.from
		if before != nil && before.place != a.place && !before.Partial && !again {
			v.add(a.place, "%v comes apart from the events of its revision in %v", a.Event, before.place)
		}
	}
	return v.err()
}

// continues reports whether a message is allowed after a partial one: it has more events of
// the same revision, ends the stream, or begins a catch-up.
func (h *History) continues(s *step, last object.Revision) bool {
	if len(s.Events) == 0 {
		return s.Kind == object.Draining || s.Kind == object.CatchUpBegin
	}
	first := s.Events[0].Revision
	return h.Latest || first == last
}
