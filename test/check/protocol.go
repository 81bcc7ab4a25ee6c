package check

import "github.com/fanoutd/fanoutd/internal/object"

// Protocol checks that messages come in the documented order: CATCH_UP_BEGIN, any number of
// CATCH_UP_PART, SYNCED, then LIVE and BOOKMARK, and DRAINING last. A stream from now begins
// with a BOOKMARK. Each message has exactly the fields of its kind.
func Protocol(h *History, _ *Truth) error {
	v := violations{history: h, guarantee: "protocol"}
	drained := false
	catchingUp := false
	for _, s := range walk(h) {
		if s.opens {
			drained, catchingUp = false, false
			opening(&v, &s, &h.Streams[s.stream])
		}
		if drained {
			v.add(s.place, "%s comes after DRAINING", kindName(s.Kind))
		}
		form(&v, &s)
		switch s.Kind {
		case object.CatchUpBegin:
			catchingUp = true
		case object.CatchUpPart:
			if !catchingUp {
				v.add(s.place, "CATCH_UP_PART without CATCH_UP_BEGIN")
			}
		case object.Synced:
			if !catchingUp {
				v.add(s.place, "SYNCED without CATCH_UP_BEGIN")
			}
			catchingUp = false
		case object.Live, object.Bookmark:
			if catchingUp {
				v.add(s.place, "%s before SYNCED", kindName(s.Kind))
			}
		case object.Draining:
			drained = true
		default:
			v.add(s.place, "%s is not documented", kindName(s.Kind))
		}
	}
	return v.err()
}

// opening checks that a stream begins as requested. A server that is stopping may end it
// before that.
func opening(v *violations, s *step, asked *Stream) {
	if s.Kind == object.Draining {
		return
	}
	if asked.Begin == FromNow {
		if s.Kind != object.Bookmark {
			v.add(s.place, "a stream from now begins with %s", kindName(s.Kind))
		}
		return
	}
	switch {
	case s.Kind != object.CatchUpBegin:
		v.add(s.place, "the stream begins with %s", kindName(s.Kind))
	case s.mode != reset && (asked.Begin == FromNothing || asked.Position.Revision == 0):
		v.add(s.place, "the stream from nothing begins with a %s", catchUpName(s.CatchUp))
	}
}

// form checks the fields of a message.
func form(v *violations, s *step) {
	kind := kindName(s.Kind)
	if s.Position.Epoch == "" {
		v.add(s.place, "%s without an epoch", kind)
	}
	unfinished := s.Kind != object.Synced
	switch {
	case s.mode == reset && unfinished && s.Position.Revision != 0:
		v.add(s.place, "%s of a RESET has position %d, but nothing can resume inside a RESET", kind, s.Position.Revision)
	case s.mode == reset && unfinished:
	case s.Position.Revision <= 0 && (s.Kind != object.Draining || s.from > 0):
		v.add(s.place, "%s has position %d", kind, s.Position.Revision)
	case s.mode == delta && unfinished && s.Kind != object.CatchUpBegin && s.Position.Revision != s.from:
		v.add(s.place, "%s of a DELTA that began at %d has position %d, which must not move", kind, s.from, s.Position.Revision)
	}
	begins := s.Kind == object.CatchUpBegin
	if known := knownCatchUp(s.CatchUp); begins != known || !begins && s.CatchUp != object.NoCatchUp {
		v.add(s.place, "%s has catch-up %s", kind, catchUpName(s.CatchUp))
	}
	if s.ResumeAtOnce && s.Kind != object.Draining {
		v.add(s.place, "%s asks to resume at once", kind)
	}
	carries := s.Kind == object.CatchUpPart || s.Kind == object.Live
	switch {
	case !carries && len(s.Events) > 0:
		v.add(s.place, "%s has %d events", kind, len(s.Events))
	case s.Kind == object.Live && len(s.Events) == 0:
		v.add(s.place, "LIVE has no events")
	case s.Partial && (len(s.Events) == 0 || s.mode == reset || s.mode == delta):
		v.add(s.place, "%s is marked partial", kind)
	}
}

func knownCatchUp(c object.CatchUpKind) bool {
	return c == object.Replay || c == object.Delta || c == object.Reset
}
