package watch

import "time"

// Stats describes the watches of a resource.
type Stats struct {
	Counts

	Live       int // watches that have caught up
	CatchingUp int // watches with a catch-up under way
	Blocked    int // watches with a message that waits for the client, whether live or catching up
	Behind     int // watches with events that gRPC has not accepted yet, whether live or catching up

	// BeyondWindow is the number of watches whose oldest waiting event has left the window, so
	// that only a minimum of their lag is known.
	BeyondWindow int

	// Lag is the longest time that any event has been waiting for any watch. It is at least
	// this time if BeyondWindow is not 0.
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
		backlog, lag, ok := e.lag(s.cfg.Resources[e.Resource()], e.position())
		if !ok || backlog.Events == 0 {
			continue
		}
		stats.Behind++
		if lag.IsMinimum {
			stats.BeyondWindow++
		}
		stats.Lag = max(stats.Lag, lag.Waited)
		stats.Backlog = max(stats.Backlog, backlog.Events) // negative if it is unknown
	}
	return all
}
