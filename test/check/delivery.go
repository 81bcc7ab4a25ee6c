package check

import (
	"maps"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Reliable: no event of the interest is missing between two positions of a stream.
// Where what waits is merged, none is missing of what is left.
func Reliable(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "reliable"}
	missing(h, t, live, &v)
	return v.err()
}

// Resumable: a resume at a position that the window covers is a REPLAY which
// begins there and brings every event since. At an older one it is a DELTA, which
// begins there and says of every object that changed since what it is now; only
// where not even the deletions since are remembered it is a RESET. Positions of
// one etcd, whose epochs are all the same, stay good whatever is restarted.
func Resumable(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "resumable"}
	missing(h, t, replay, &v)
	missingFromDelta(h, t, &v)

	var epoch object.Epoch
	var begun *step // the beginning of the catch-up
	steps := walk(h)
	for i := range steps {
		s := &steps[i]
		if epoch == "" {
			epoch = s.Position.Epoch
		}
		if s.Position.Epoch != epoch {
			v.broken(s.place, "the epoch %q follows the epoch %q of the same etcd", s.Position.Epoch, epoch)
		}
		if s.Kind == object.CatchUpBegin {
			begun = s
		}
		catchesUp := s.mode == replay || s.mode == delta
		// A watcher that was up to date, with nothing to be told, may have been
		// further than its last message said.
		begins := s.Position.Revision == s.from ||
			!s.opens && s.Position.Revision > s.from && h.nothing(t, s.from, s.Position.Revision)
		if s.Kind == object.CatchUpBegin && catchesUp && !begins {
			v.broken(s.place, "the %s begins at revision %d instead of at %d", catchUpName(s.CatchUp), s.Position.Revision, s.from)
		}
		if s.Kind != object.Synced || s.from == 0 || begun == nil || s.mode != delta && s.mode != reset {
			continue
		}
		present := t.present(begun, s)
		switch {
		case t.replayable(s.from, present):
			v.broken(s.place, "a %s although %d is at most %d changes behind, of %d that are remembered",
				s.mode, s.from, count(t, s.from, present), t.Window)
		case s.mode == reset && t.deltable(s.from, present):
			v.broken(s.place, "a RESET although what changed since %d is remembered", s.from)
		}
	}
	for i := range h.Streams {
		// How far the server had got is not known, only that it was not further
		// than the truth.
		at, known := (&History{Streams: h.Streams[:i+1]}).Position()
		if known && h.Streams[i].Status == StatusPositionExpired && t.replayable(at.Revision, t.Through) {
			v.broken(h.lastPlace(i), "the stream ends with %s, but %d is never more than %d changes behind, and as many are remembered",
				StatusPositionExpired, at.Revision, t.Window)
		}
	}
	return v.err()
}

// Bookmarkable: once a position has been given, no event at or below it comes
// for the first time.
func Bookmarkable(h *History, _ *Truth) error {
	v := verdict{history: h, guarantee: "bookmarkable"}
	for _, a := range arrivals(walk(h)) {
		if !a.again && a.revision() <= a.from {
			v.broken(a.place, "%v comes although position %d had been given", a.Event, a.from)
		}
	}
	return v.err()
}

// missing reports the events which positions given in the mode claim to be
// delivered, and which never were.
func missing(h *History, t *Truth, in mode, v *verdict) {
	if h.Latest {
		missingMerged(h, t, in, v)
		return
	}
	type delivery struct {
		run int
		version
	}
	steps := walk(h)
	delivered := map[delivery]int{} // the last stream that brought the event
	for _, a := range arrivals(steps) {
		if a.mode != delta {
			delivered[delivery{a.run, version{a.Object.Key, a.revision()}}] = a.stream
		}
	}
	var begun *step // the beginning of the catch-up
	for i := range steps {
		s := &steps[i]
		if s.Kind == object.CatchUpBegin {
			begun = s
		}
		if s.mode != in {
			continue
		}
		// What an earlier stream brought beyond the position at which it was
		// left has to come again, so only this stream counts, or a later one:
		// coming too late is another fault than not coming.
		came := func(e *Event) bool {
			stream, ok := delivered[delivery{s.run, version{e.Object.Key, e.revision()}}]
			return ok && stream >= s.stream
		}
		crossed := map[object.Key][]Event{}
		gaps := t.gaps(s.from, s.Position.Revision)
		if in == replay && begun != nil {
			// A REPLAY has every event. Only one that was under way may come to
			// a gap.
			gaps = slices.DeleteFunc(gaps, func(g Gap) bool { return !g.Crossed.IsZero() && begun.At.After(g.Crossed) })
		}
		for _, g := range gaps {
			maps.Copy(crossed, h.crossing(t, g))
		}
		for _, e := range h.between(t, s.from, s.Position.Revision) {
			if came(&e) {
				continue
			}
			if hidden(gaps, e.revision()) {
				ways := crossed[e.Object.Key]
				if len(ways) == 0 || slices.ContainsFunc(ways, func(way Event) bool { return came(&way) }) {
					continue
				}
			}
			v.broken(s.place, "%v is missing between positions %d and %d", &e, s.from, s.Position.Revision)
		}
	}
}

// nothing reports whether there is nothing to tell the watcher between two positions.
func (h *History) nothing(t *Truth, from, to object.Revision) bool {
	if h.Latest {
		return len(h.merged(t, from, to)) == 0
	}
	gaps := t.gaps(from, to)
	crossed := map[object.Key][]Event{}
	for _, g := range gaps {
		maps.Copy(crossed, h.crossing(t, g))
	}
	for _, e := range h.between(t, from, to) {
		if _, ok := crossed[e.Object.Key]; ok || !hidden(gaps, e.revision()) {
			return false
		}
	}
	return true
}

// hidden reports whether one of the gaps hides the revision.
func hidden(gaps []Gap, r object.Revision) bool {
	for _, g := range gaps {
		if g.within(r) {
			return true
		}
	}
	return false
}

// missingMerged reports what is missing where events are merged per key.
func missingMerged(h *History, t *Truth, in mode, v *verdict) {
	for _, g := range groups(walk(h), in) {
		if !g.complete {
			continue
		}
		came := map[object.Key]bool{}
		for _, e := range g.events {
			came[e.Object.Key] = true
		}
		for _, e := range sorted(h.merged(t, g.from, g.to)) {
			if !came[e.Object.Key] {
				v.broken(g.end(), "%v is missing between positions %d and %d", &e, g.from, g.to)
			}
		}
	}
}

// missingFromDelta reports what a DELTA leaves out.
func missingFromDelta(h *History, t *Truth, v *verdict) {
	for _, g := range groups(walk(h), delta) {
		if !g.complete {
			continue
		}
		came := map[object.Key]bool{}
		for _, e := range g.events {
			came[e.Object.Key] = true
		}
		all := map[object.Key]Event{}
		for key, b := range h.delta(t, g.from, g.to) {
			if !b.optional {
				all[key] = b.Event
			}
		}
		for _, e := range sorted(all) {
			if !came[e.Object.Key] {
				v.broken(g.end(), "%v is missing from the DELTA between %d and %d", &e, g.from, g.to)
			}
		}
	}
}
