package check

import "github.com/fanoutd/fanoutd/internal/object"

// Protocol: messages come in the documented order, CATCH_UP_BEGIN, any number of
// CATCH_UP_PART, SYNCED, then LIVE and BOOKMARK, and DRAINING last; a stream from
// now begins with a BOOKMARK. Each has what its kind says, and no more.
func Protocol(h *History, _ *Truth) error {
	v := verdict{history: h, guarantee: "protocol"}
	drained := false
	catchingUp := false
	for _, s := range walk(h) {
		if s.opens {
			drained, catchingUp = false, false
			opening(&v, &s, &h.Streams[s.stream])
		}
		if drained {
			v.broken(s.place, "%s comes after DRAINING", kindName(s.Kind))
		}
		form(&v, &s)
		switch s.Kind {
		case object.CatchUpBegin:
			catchingUp = true
		case object.CatchUpPart:
			if !catchingUp {
				v.broken(s.place, "CATCH_UP_PART without CATCH_UP_BEGIN")
			}
		case object.Synced:
			if !catchingUp {
				v.broken(s.place, "SYNCED without CATCH_UP_BEGIN")
			}
			catchingUp = false
		case object.Live, object.Bookmark:
			if catchingUp {
				v.broken(s.place, "%s before SYNCED", kindName(s.Kind))
			}
		case object.Draining:
			drained = true
		default:
			v.broken(s.place, "%s is not documented", kindName(s.Kind))
		}
	}
	return v.err()
}

// opening checks that a stream begins as it was asked to. A server that is
// stopping may end it before that.
func opening(v *verdict, s *step, asked *Stream) {
	if s.Kind == object.Draining {
		return
	}
	if asked.Begin == FromNow {
		if s.Kind != object.Bookmark {
			v.broken(s.place, "a stream from now begins with %s", kindName(s.Kind))
		}
		return
	}
	switch {
	case s.Kind != object.CatchUpBegin:
		v.broken(s.place, "the stream begins with %s", kindName(s.Kind))
	case s.mode != reset && (asked.Begin == FromNothing || asked.Position.Revision == 0):
		v.broken(s.place, "the stream from nothing begins with a %s", catchUpName(s.CatchUp))
	}
}

// form checks a message by itself.
func form(v *verdict, s *step) {
	kind := kindName(s.Kind)
	if s.Position.Epoch == "" {
		v.broken(s.place, "%s without an epoch", kind)
	}
	unfinished := s.Kind != object.Synced
	switch {
	case s.mode == reset && unfinished && s.Position.Revision != 0:
		v.broken(s.place, "%s of a RESET has position %d, but half a state is no place to continue from", kind, s.Position.Revision)
	case s.mode == reset && unfinished:
	case s.Position.Revision <= 0 && (s.Kind != object.Draining || s.from > 0):
		v.broken(s.place, "%s has position %d", kind, s.Position.Revision)
	case s.mode == delta && unfinished && s.Kind != object.CatchUpBegin && s.Position.Revision != s.from:
		v.broken(s.place, "%s of a DELTA that began at %d has position %d, but it stays where it was", kind, s.from, s.Position.Revision)
	}
	begins := s.Kind == object.CatchUpBegin
	if known := knownCatchUp(s.CatchUp); begins != known || !begins && s.CatchUp != object.NoCatchUp {
		v.broken(s.place, "%s has catch-up %s", kind, catchUpName(s.CatchUp))
	}
	carries := s.Kind == object.CatchUpPart || s.Kind == object.Live
	switch {
	case !carries && len(s.Events) > 0:
		v.broken(s.place, "%s has %d events", kind, len(s.Events))
	case s.Kind == object.Live && len(s.Events) == 0:
		v.broken(s.place, "LIVE has no events")
	case s.Partial && (len(s.Events) == 0 || s.mode == reset || s.mode == delta):
		v.broken(s.place, "%s is marked partial", kind)
	}
}

func knownCatchUp(c object.CatchUp) bool {
	return c == object.Replay || c == object.Delta || c == object.Reset
}
