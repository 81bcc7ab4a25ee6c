package watch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// Stats describes the watches of a resource.
type Stats struct {
	Counts

	Live       int // watches that have caught up
	CatchingUp int // watches with a catch-up under way
	Blocked    int // watches with a message that waits for the client, whether live or catching up
	Behind     int // watches with events that gRPC has not accepted yet, whether live or catching up

	// Lag is the longest time that any event has been waiting for any watch.
	Lag time.Duration

	// Backlog is the largest number of events that wait for one watch. It leaves out watches
	// whose waiting events are older than the log of their feed.
	Backlog int
}

// Stats describes the watches of each resource. It takes a microsecond or two for each watch,
// and holds the lock of an entry only for a moment.
func (s *Service) Stats() map[string]*Stats {
	all := map[string]*Stats{}
	for name := range s.cfg.Resources {
		stats := &Stats{Counts: newCounts()}
		for i := range s.counters[name] {
			stats.add(&s.counters[name][i])
		}
		all[name] = stats
	}
	for _, e := range s.Registry.completeEntries() {
		stats := all[e.Resource()]
		if e.isCatchingUp() {
			stats.CatchingUp++
		} else {
			stats.Live++
		}
		if e.isBlocked() {
			stats.Blocked++
		}
		events, waited := waiting(s.cfg.Resources[e.Resource()], e)
		if events == 0 {
			continue
		}
		stats.Behind++
		stats.Lag = max(stats.Lag, waited)
		stats.Backlog = max(stats.Backlog, events)
	}
	return all
}

// waiting returns the number of events that wait for a watch, and for how long the first of
// them has been waiting. The number is negative if it is unknown.
func waiting(r *backend.Resource, e *Entry) (events int, waited time.Duration) {
	w, ok := e.watcher.(*dispatch.Watcher)
	at := e.position()
	if !ok || at.Revision == 0 {
		return 0, 0
	}
	backlog, lag := r.Backlog(w, at)
	return backlog.Events, lag.Waited
}
