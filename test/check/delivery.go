package check

import "github.com/fanoutd/fanoutd/internal/object"

// Reliable checks that no event of the interest is missing between two positions of a
// stream, whatever the server could see of the history: only a DELTA or a RESET may skip
// events. If pending events are merged, no merged event is missing.
func Reliable(h *History, t *Truth) error {
	v := violations{history: h, guarantee: "reliable"}
	missing(h, t, live, &v)
	return v.err()
}

// Resumable checks the catch-up of a resume. If the window covers the position, it is a
// REPLAY that begins there and has every event since. At an older position it is a DELTA
// that begins there and has the present object of every key that changed since. It is a
// RESET only if the deletions since are no longer remembered. Positions of one etcd stay
// valid across restarts of servers.
func Resumable(h *History, t *Truth) error {
	v := violations{history: h, guarantee: "resumable"}
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
			v.add(s.place, "the epoch %q follows the epoch %q of the same etcd", s.Position.Epoch, epoch)
		}
		if s.Kind == object.CatchUpBegin {
			begun = s
		}
		catchesUp := s.mode == replay || s.mode == delta
		// A watcher that was up to date may have advanced without a message, if there
		// were no events for it.
		begins := s.Position.Revision == s.from ||
			!s.opens && s.Position.Revision > s.from && h.nothingBetween(t, s.from, s.Position.Revision)
		if s.Kind == object.CatchUpBegin && catchesUp && !begins {
			v.add(s.place, "the %s begins at revision %d instead of at %d", catchUpName(s.CatchUp), s.Position.Revision, s.from)
		}
		if s.Kind != object.Synced || s.from == 0 || begun == nil || s.mode != delta && s.mode != reset {
			continue
		}
		present := t.present(begun, s)
		switch {
		case t.replayable(s.from, present):
			v.add(s.place, "a %s although %d is at most %d changes behind, of %d that are remembered",
				s.mode, s.from, count(t, s.from, present), t.Window)
		case s.mode == reset && t.hasDelta(s.from, present):
			v.add(s.place, "a RESET although what changed since %d is remembered", s.from)
		}
	}
	for i := range h.Streams {
		// The revision of the server is not known. It was at most that of the truth.
		at, known := (&History{Streams: h.Streams[:i+1]}).Position()
		if known && h.Streams[i].Status == StatusPositionExpired && t.replayable(at.Revision, t.Through) {
			v.add(h.lastPlace(i), "the stream ends with %s, but %d is never more than %d changes behind, and as many are remembered",
				StatusPositionExpired, at.Revision, t.Window)
		}
	}
	return v.err()
}

// Bookmarkable checks that no event comes for the first time after a position at or above
// its revision.
func Bookmarkable(h *History, _ *Truth) error {
	v := violations{history: h, guarantee: "bookmarkable"}
	for _, a := range arrivals(walk(h)) {
		if !a.again && a.Revision <= a.from {
			v.add(a.place, "%v comes after position %d", a.Event, a.from)
		}
	}
	return v.err()
}

// missing reports events that never came although the positions sent in the mode say that
// they were delivered.
func missing(h *History, t *Truth, in mode, v *violations) {
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
			delivered[delivery{a.run, version{a.Object.Key, a.Revision}}] = a.stream
		}
	}
	for i := range steps {
		s := &steps[i]
		if s.mode != in {
			continue
		}
		for _, e := range h.between(t, s.from, s.Position.Revision) {
			// Events that an earlier stream delivered after its last position must come
			// again, so only this stream and later ones count. An event that comes too
			// late is another fault.
			stream, came := delivered[delivery{s.run, version{e.Object.Key, e.Revision}}]
			if !came || stream < s.stream {
				v.add(s.place, "%v is missing between positions %d and %d", &e, s.from, s.Position.Revision)
			}
		}
	}
}

// nothingBetween reports whether there are no events for the watcher between two positions.
func (h *History) nothingBetween(t *Truth, from, to object.Revision) bool {
	if h.Latest {
		return len(h.merged(t, from, to)) == 0
	}
	return len(h.between(t, from, to)) == 0
}

// missingMerged reports missing events of a watcher whose events are merged per key.
func missingMerged(h *History, t *Truth, in mode, v *violations) {
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
				v.add(g.end(), "%v is missing between positions %d and %d", &e, g.from, g.to)
			}
		}
	}
}

// missingFromDelta reports events that are missing from a DELTA.
func missingFromDelta(h *History, t *Truth, v *violations) {
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
				v.add(g.end(), "%v is missing from the DELTA between %d and %d", &e, g.from, g.to)
			}
		}
	}
}
