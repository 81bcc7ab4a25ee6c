package check

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Honest: a watch that cannot keep a promise ends with a status that says which,
// and it never goes silent. Who wants every event or none is cut off with the
// reason instead of being told a difference; a server that ends a stream says where
// to resume first; and who asked for bookmarks gets them while nothing happens, they
// keep up with what was acknowledged long ago, and there are none while nobody knows
// whether anything happens.
func Honest(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "honest"}
	for _, s := range walk(h) {
		skips := s.mode == delta || s.mode == reset
		if h.EveryEvent && s.Kind == object.CatchUpBegin && skips && s.from > 0 {
			v.broken(s.place, "a %s although the watcher wanted every event after %d or none", catchUpName(s.CatchUp), s.from)
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
			unheard(&v, t, s, i)
		}
	}
	return v.err()
}

// ending judges how the server ended a stream.
func ending(v *verdict, h *History, s *Stream, at place) {
	switch s.Status {
	case StatusPositionExpired, StatusEpochChanged:
		if !h.EveryEvent {
			v.broken(at, "the stream ends with %s although the watcher takes any catch-up", s.Status)
		}
	case StatusOK, StatusDraining:
		if n := len(s.Messages); n > 0 && s.Messages[n-1].Kind != object.Draining {
			v.broken(at, "the stream ends with %s, but the last message is %s instead of DRAINING", s.Status, kindName(s.Messages[n-1].Kind))
		}
	}
}

// silences looks for silence that was longer than the watcher asked for.
func silences(v *verdict, h *History, t *Truth, s *Stream, stream int) {
	if s.Opened.IsZero() || s.Ended.IsZero() {
		return
	}
	last := s.Opened
	judge := func(until time.Time, i int) {
		silent := until.Sub(last) - excused(last, until, t.Outages, s.Away)
		if silent > h.Bookmarks+t.Patience {
			v.broken(place{stream, i}, "silence of %v, the bookmark interval is %v", silent, h.Bookmarks)
		}
		last = until
	}
	for i := range s.Messages {
		judge(s.Messages[i].At, i)
	}
	judge(s.Ended, max(0, len(s.Messages)-1))
}

// stale looks for positions of a stream at rest that leave out what was
// acknowledged long before.
func stale(v *verdict, t *Truth, s *Stream, stream int) {
	for i := range s.Messages {
		m := &s.Messages[i]
		if m.Kind != object.Bookmark {
			continue
		}
		// What was acknowledged before an outage may come after it.
		since := m.At.Add(-t.Patience)
		if excused(since, m.At, t.Outages, s.Away) > 0 {
			continue
		}
		if known := t.known(since); m.Position.Revision < known {
			v.broken(place{stream, i}, "a bookmark at %d, but %d had been acknowledged %v before", m.Position.Revision, known, t.Patience)
		}
	}
}

// lastWord is how long before the end of a stream the bookmark that says where it ends
// comes at most. When the store comes back in between there is more behind it.
const lastWord = time.Second

// unheard looks for bookmarks that came while no server heard of the store, and so
// none could know that there was nothing to tell. The first message of a stream may
// be one, because it says where the stream begins, and the last, because it says where
// it ends.
func unheard(v *verdict, t *Truth, s *Stream, stream int) {
	last := len(s.Messages) - 1
	if last > 0 && s.Messages[last].Kind == object.Draining {
		last--
	}
	for i := 1; i < last; i++ {
		m := &s.Messages[i]
		if m.Kind == object.Bookmark && !s.Ended.IsZero() && s.Ended.Sub(m.At) <= lastWord {
			continue
		}
		for _, severed := range t.Severed {
			if m.Kind == object.Bookmark && m.At.After(severed.From) && m.At.Before(severed.To) {
				v.broken(place{stream, i}, "a bookmark at %d although nobody has heard of the store since%s", m.Position.Revision, clock(severed.From))
			}
		}
	}
}
