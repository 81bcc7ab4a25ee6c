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
	Blocked    int // watches, live or catching up, with a message that waits for the client
	Behind     int // watches, live or catching up, with events that gRPC has not accepted yet

	// Lag is the longest time that an event has been waiting for a watch.
	Lag time.Duration

	// Backlog is the largest number of events that wait for one watch. It leaves out watches
	// whose events are older than the log of their feed.
	Backlog int
}

// Stats describes the watches of each resource. It takes a microsecond or two for each
// watch, and holds the lock of each only for a moment.
func (s *Service) Stats() map[string]*Stats {
	all := map[string]*Stats{}
	for name := range s.cfg.Resources {
		stats := &Stats{Counts: newCounts()}
		for i := range s.counters[name] {
			stats.add(&s.counters[name][i])
		}
		all[name] = stats
	}
	for _, e := range s.Registry.all() {
		stats := all[e.Resource()]
		if e.isCatchingUp() {
			stats.CatchingUp++
		} else {
			stats.Live++
		}
		if e.isBlocked() {
			stats.Blocked++
		}
		events, lag := waiting(s.cfg.Resources[e.Resource()], e)
		if events == 0 {
			continue
		}
		stats.Behind++
		stats.Lag = max(stats.Lag, lag)
		stats.Backlog = max(stats.Backlog, events)
	}
	return all
}

// waiting returns how many events wait for a watch, negative if unknown, and for how long the
// first of them has been waiting.
func waiting(r *backend.Resource, e *Entry) (events int, lag time.Duration) {
	w, ok := e.watcher.(*dispatch.Watcher)
	at := e.position()
	if !ok || at.Revision == 0 {
		return 0, 0
	}
	backlog, _, lag := r.Backlog(w, at)
	return backlog.Events, lag
}
