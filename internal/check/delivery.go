package check

import "github.com/fanoutd/fanoutd/internal/object"

// Reliable: no event of the scope is missing between two positions of a stream.
func Reliable(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "reliable"}
	missing(h, t, live, &v)
	return v.err()
}

// Resumable: a resume at a position that the window covers is a REPLAY which
// begins there and brings every event since. Positions of one etcd, whose epochs
// are all the same, stay good whatever is restarted.
func Resumable(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "resumable"}
	missing(h, t, replay, &v)

	var epoch object.Epoch
	for _, s := range walk(h) {
		if epoch == "" {
			epoch = s.Position.Epoch
		}
		if s.Position.Epoch != epoch {
			v.broken(s.place, "the epoch %q follows the epoch %q of the same etcd", s.Position.Epoch, epoch)
		}
		switch {
		case s.Kind == object.CatchUpBegin && s.mode == replay && s.Position.Revision != s.from:
			v.broken(s.place, "the replay begins at revision %d instead of at %d", s.Position.Revision, s.from)
		case s.Kind == object.Synced && s.mode == reset && s.from > 0 && t.Window > 0:
			if n := count(t, s.from, s.Position.Revision); n <= t.Window {
				v.broken(s.place, "a RESET to revision %d although %d is only %d changes behind, of %d that are remembered", s.Position.Revision, s.from, n, t.Window)
			}
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

// missing reports the changes which positions given in the mode claim to be
// delivered, and which never were.
func missing(h *History, t *Truth, in mode, v *verdict) {
	type delivery struct {
		run int
		version
	}
	steps := walk(h)
	delivered := map[delivery]int{} // the last stream that brought the change
	for _, a := range arrivals(steps) {
		delivered[delivery{a.run, version{a.Object.Key, a.revision()}}] = a.stream
	}
	for _, s := range steps {
		if s.mode != in {
			continue
		}
		for c := range t.Between(h.Scope, s.from, s.Position.Revision) {
			// What an earlier stream brought beyond the position at which it was
			// left has to come again, so only this stream counts, or a later one:
			// coming too late is another fault than not coming.
			stream, ok := delivered[delivery{s.run, version{c.Key, c.Revision}}]
			if !ok || stream < s.stream {
				event := eventOf(c)
				v.broken(s.place, "%v is missing between positions %d and %d", &event, s.from, s.Position.Revision)
			}
		}
	}
}

// count returns the number of changes of the whole resource after one revision
// and up to another.
func count(t *Truth, after, through object.Revision) int {
	n := 0
	for range t.Between(object.Scope{}, after, through) {
		n++
	}
	return n
}
