package check

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Honest checks that a watch that cannot keep a guarantee ends with a status that names it,
// and that a watch is never silent for too long:
//   - A watcher that wants every event gets an error instead of a DELTA or RESET.
//   - A server that ends a stream sends the position to resume at first.
//   - A watcher that asked for bookmarks gets them while nothing happens.
//   - Bookmarks are not older than writes that were acknowledged long before.
//   - There are no bookmarks while the server has lost the store.
func Honest(h *History, t *Truth) error {
	v := violations{history: h, guarantee: "honest"}
	for _, s := range walk(h) {
		skips := s.mode == delta || s.mode == reset
		if h.EveryEvent && s.Kind == object.CatchUpBegin && skips && s.from > 0 {
			v.add(s.place, "a %s although the watcher wanted every event after %d or none", catchUpName(s.CatchUp), s.from)
		}
	}
	for i := range h.Streams {
		s := &h.Streams[i]
		at := h.lastPlace(i)
		ending(&v, h, s, at)
		if h.Bookmarks > 0 && t.Patience > 0 {
			silences(&v, h, t, s, i)
			stale(&v, t, s, i)
		}
		if h.Bookmarks > 0 {
			unfounded(&v, t, s, i)
		}
	}
	return v.err()
}

// ending checks how the server ended a stream.
func ending(v *violations, h *History, s *Stream, at place) {
	switch s.Status {
	case StatusPositionExpired, StatusEpochChanged:
		if !h.EveryEvent {
			v.add(at, "the stream ends with %s although the watcher takes any catch-up", s.Status)
		}
	case StatusOK, StatusDraining:
		if n := len(s.Messages); n > 0 && s.Messages[n-1].Kind != object.Draining {
			v.add(at, "the stream ends with %s, but the last message is %s instead of DRAINING", s.Status, kindName(s.Messages[n-1].Kind))
		}
	}
}

// silences finds silences that are longer than the watcher asked for.
func silences(v *violations, h *History, t *Truth, s *Stream, stream int) {
	if s.Opened.IsZero() || s.Ended.IsZero() {
		return
	}
	last := s.Opened
	check := func(until time.Time, i int) {
		silent := until.Sub(last) - excused(last, until, t.Outages, s.Away)
		if silent > h.Bookmarks+t.Patience {
			v.add(place{stream, i}, "silence of %v, the bookmark interval is %v", silent, h.Bookmarks)
		}
		last = until
	}
	for i := range s.Messages {
		check(s.Messages[i].At, i)
	}
	check(s.Ended, max(0, len(s.Messages)-1))
}

// stale finds bookmarks that are older than a write that was acknowledged long before.
func stale(v *violations, t *Truth, s *Stream, stream int) {
	for i := range s.Messages {
		m := &s.Messages[i]
		if m.Kind != object.Bookmark {
			continue
		}
		// Events from before an outage may come after it.
		since := m.At.Add(-t.Patience)
		if excused(since, m.At, t.Outages, s.Away) > 0 {
			continue
		}
		if known := t.known(since); m.Position.Revision < known {
			v.add(place{stream, i}, "a bookmark at %d, but %d was acknowledged %v before", m.Position.Revision, known, t.Patience)
		}
	}
}

// lastBookmark is how long before the end of a stream its last bookmark may come. If the
// store returns in between, further messages follow it.
const lastBookmark = time.Second

// unfounded finds bookmarks that came while every server had lost the store, so no server
// could know that nothing had happened. The first and the last message of a stream may be
// bookmarks even then. They carry the positions of its beginning and its end.
func unfounded(v *violations, t *Truth, s *Stream, stream int) {
	last := len(s.Messages) - 1
	if last > 0 && s.Messages[last].Kind == object.Draining {
		last--
	}
	for i := 1; i < last; i++ {
		m := &s.Messages[i]
		if m.Kind == object.Bookmark && !s.Ended.IsZero() && s.Ended.Sub(m.At) <= lastBookmark {
			continue
		}
		for _, severed := range t.Severed {
			if m.Kind == object.Bookmark && m.At.After(severed.From) && m.At.Before(severed.To) {
				v.add(place{stream, i}, "a bookmark at %d although the store has been lost since%s", m.Position.Revision, clock(severed.From))
			}
		}
	}
}
