package check

import "github.com/fanoutd/fanoutd/internal/object"

// Atomic: the events of one revision come in one message, or in messages that
// follow each other and are marked partial except the last, and a position never
// points inside a revision. Events that were merged count as one revision.
func Atomic(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "atomic"}
	steps := walk(h)
	for i := range steps {
		s := &steps[i]
		if s.mode == reset || s.mode == delta || len(s.Events) == 0 {
			continue
		}
		first, last := s.Events[0].revision(), s.Events[len(s.Events)-1].revision()
		if !s.Partial {
			if s.Position.Revision < last {
				v.broken(s.place, "position %d lies before the event of revision %d that the message completes", s.Position.Revision, last)
			}
			continue
		}
		switch {
		case h.Latest && (s.Position.Revision < s.from || !h.nothing(t, s.from, s.Position.Revision)):
			v.broken(s.place, "position %d is not where the partial message began, %d", s.Position.Revision, s.from)
		case !h.Latest && first != last && !t.oneGap(first, last):
			v.broken(s.place, "a partial message has events of revisions %d and %d", first, last)
		case !h.Latest && s.Position.Revision >= first:
			v.broken(s.place, "position %d points inside revision %d, of which more is to come", s.Position.Revision, last)
		}
		if i+1 < len(steps) && steps[i+1].stream == s.stream && !h.continues(t, &steps[i+1], last) {
			v.broken(s.place, "more of revision %d is announced, but does not follow", last)
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
		r := revision{a.run, a.revision()}
		before := home[r]
		home[r] = a.step
		// An announced rest may come in the next message. A new stream sends what
		// lies beyond its position from the beginning.
		again := before != nil && before.stream != a.stream && a.revision() > a.from
		if before != nil && before.place != a.place && !before.Partial && !again {
			v.broken(a.place, "%v comes apart from the events of its revision in %v", a.Event, before.place)
		}
	}
	return v.err()
}

// continues reports whether a message behind a partial one does what it may:
// bring more of the same revision, give the stream up, or begin a catch-up, which
// takes everything up again.
func (h *History) continues(t *Truth, s *step, last object.Revision) bool {
	if len(s.Events) == 0 {
		return s.Kind == object.Draining || s.Kind == object.CatchUpBegin
	}
	first := s.Events[0].revision()
	return h.Latest || first == last || t.oneGap(last, first)
}

// oneGap reports whether two revisions lie in the same gap: what is in it comes at
// one revision.
func (t *Truth) oneGap(a, b object.Revision) bool {
	for _, g := range t.Gaps {
		if g.within(a) && g.within(b) {
			return true
		}
	}
	return false
}
