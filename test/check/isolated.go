package check

import (
	"sort"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Isolated checks that a watcher that reads at once gets events at once, whatever other
// watchers do. If it is connected and up to date when a change is acknowledged, it must
// receive the event before many more writes are acknowledged. The limit is a number of
// writes and not a time, because a busy machine slows down the writers, too.
func Isolated(h *History, t *Truth) error {
	v := violations{history: h, guarantee: "isolated"}
	if !h.Prompt || t.Backlog == 0 {
		return nil
	}
	backlogs(h, t, func(at place, event *Event, later int) {
		if later > t.Backlog {
			v.add(at, "%v comes when %d later writes have been acknowledged", event, later)
		}
	}, func(at place, change *Change, later int) {
		if later > t.Backlog {
			v.add(at, "the change of %q at %d has not come when %d later writes have been acknowledged", change.Key, change.Revision, later)
		}
	})
	return v.err()
}

// Backlog returns the largest number of writes that were acknowledged between a write and
// the arrival of its event. It counts only the changes that [Isolated] checks.
func Backlog(h *History, t *Truth) int {
	most := 0
	backlogs(h, t,
		func(_ place, _ *Event, later int) { most = max(most, later) },
		func(_ place, _ *Change, later int) { most = max(most, later) })
	return most
}

// backlogs considers the changes that were acknowledged while the watcher was reading and up
// to date. It calls came for each event that arrived, and missed for a change whose event
// had not arrived when the watcher stopped reading. Both get the number of writes that were
// acknowledged in between.
func backlogs(h *History, t *Truth, came func(place, *Event, int), missed func(place, *Change, int)) {
	acknowledged := map[object.Revision]time.Time{}
	for _, a := range t.Acknowledged {
		acknowledged[a.Revision] = a.At
	}
	known := func(at time.Time) int {
		return sort.Search(len(t.Acknowledged), func(i int) bool { return t.Acknowledged[i].At.After(at) })
	}
	// later returns how many writes were acknowledged between the write of a revision and
	// a time. It returns false if the watcher was not reading all the time, or if there
	// was an outage.
	later := func(s *Stream, since time.Time, r object.Revision, at time.Time) (int, bool) {
		written, ok := acknowledged[r]
		if !ok || since.IsZero() || written.Before(since) || !at.After(written) || excused(written, at, t.Outages, s.Away) > 0 {
			return 0, false
		}
		return known(at) - known(written), true
	}
	ready := map[int]time.Time{} // when the watcher was up to date for the first time, by stream
	steps := walk(h)
	for i := range steps {
		s := &steps[i]
		if _, ok := ready[s.stream]; !ok && (s.Kind == object.Synced || s.mode == now) {
			ready[s.stream] = s.At
		}
	}
	for _, a := range arrivals(steps) {
		s := &h.Streams[a.stream]
		if n, ok := later(s, ready[a.stream], a.Revision, a.At); ok {
			came(a.place, a.Event, n)
		}
	}
	if h.Latest {
		return // an event may be missing because it was merged with one that undid it
	}
	for i := range steps {
		s := &steps[i]
		if i+1 < len(steps) && steps[i+1].stream == s.stream {
			continue
		}
		// The last message of its stream.
		from := max(s.from, s.Position.Revision)
		stream := &h.Streams[s.stream]
		for c := range t.Between(h.Scope, from, t.Through) {
			if _, is := h.event(c); !is {
				continue
			}
			if n, ok := later(stream, ready[s.stream], c.Revision, stream.Ended); ok {
				missed(s.place, c, n)
			}
			break // the others have waited for less time
		}
	}
}
