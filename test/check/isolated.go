package check

import (
	"sort"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Isolated: whoever reads at once is told at once, whatever becomes of the others. A
// watcher that is there and up to date when a change is acknowledged hears of it
// before many more are. It is a number of writes that is allowed and no time: a
// machine that is too busy for the server is too busy for the writers, too.
func Isolated(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "isolated"}
	if !h.Prompt || t.Backlog == 0 {
		return nil
	}
	backlogs(h, t, func(at place, event *Event, later int) {
		if later > t.Backlog {
			v.broken(at, "%v comes when %d later writes have been acknowledged", event, later)
		}
	}, func(at place, change *object.Change, later int) {
		if later > t.Backlog {
			v.broken(at, "the change of %q at %d has not come when %d later writes have been acknowledged", change.Key, change.Revision, later)
		}
	})
	return v.err()
}

// Backlog returns the largest number of writes that were acknowledged between a
// write and the moment at which the watcher was told of it. Only those changes count
// for which [Isolated] speaks.
func Backlog(h *History, t *Truth) int {
	most := 0
	backlogs(h, t,
		func(_ place, _ *Event, later int) { most = max(most, later) },
		func(_ place, _ *object.Change, later int) { most = max(most, later) })
	return most
}

// backlogs calls came with each event of a change that was acknowledged while the
// watcher was listening and up to date, and missed with one that had not come when
// the watcher ceased to listen; and with the number of writes that had been
// acknowledged since.
func backlogs(h *History, t *Truth, came func(place, *Event, int), missed func(place, *object.Change, int)) {
	acknowledged := map[object.Revision]time.Time{}
	for _, a := range t.Acknowledged {
		acknowledged[a.Revision] = a.At
	}
	known := func(at time.Time) int {
		return sort.Search(len(t.Acknowledged), func(i int) bool { return t.Acknowledged[i].At.After(at) })
	}
	// later returns how many writes were acknowledged between the one of a revision
	// and a moment. False: the watcher was not there all the time, or nobody was.
	later := func(s *Stream, since time.Time, r object.Revision, at time.Time) (int, bool) {
		told, ok := acknowledged[r]
		if !ok || since.IsZero() || told.Before(since) || !at.After(told) || excused(told, at, t.Outages, s.Away) > 0 {
			return 0, false
		}
		return known(at) - known(told), true
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
		if n, ok := later(s, ready[a.stream], a.revision(), a.At); ok {
			came(a.place, a.Event, n)
		}
	}
	if h.Latest {
		return // what has not come may have been merged with what undid it
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
			break // the others have been waiting for less long
		}
	}
}
