package server

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// WatchStats is what there is to say of the watches of a resource.
type WatchStats struct {
	WatchCounts

	Live       int // watches that are told what happens
	CatchingUp int // watches that are being brought to the present
	Blocked    int // of both, those for which a message waits for the network
	Behind     int // of both, those for which events wait that the network has not taken yet

	// Lag is how long the event waits that waits the longest for a watch.
	Lag time.Duration

	// Backlog is the largest number of events that wait for one watch, as far as they
	// have been counted: where the log of the feed does not reach back they have not.
	Backlog int
}

// WatchStats returns what there is to say of the watches of each resource. It takes
// a microsecond or two for each watch, and makes none of them wait.
func (s *Server) WatchStats() map[string]*WatchStats {
	all := map[string]*WatchStats{}
	for name := range s.resources {
		stats := &WatchStats{WatchCounts: newWatchCounts()}
		for i := range s.tallies[name] {
			stats.add(&s.tallies[name][i])
		}
		all[name] = stats
	}
	for _, one := range s.sessions.all() {
		name := one.question.Resource
		stats := all[name]
		if one.catchingUp() {
			stats.CatchingUp++
		} else {
			stats.Live++
		}
		if one.blocked() {
			stats.Blocked++
		}
		events, lag := waiting(s.resources[name], one)
		if events == 0 {
			continue
		}
		stats.Behind++
		stats.Lag = max(stats.Lag, lag)
		stats.Backlog = max(stats.Backlog, events)
	}
	return all
}

// waiting returns how many events wait for a watch, negative if that is not known, and
// for how long the first of them does.
func waiting(r *backend.Resource, s *session) (events int, lag time.Duration) {
	w, ok := s.watcher.(*dispatch.Watcher)
	at := s.position()
	if !ok || at.Revision == 0 {
		return 0, 0
	}
	backlog, _, lag := r.Backlog(w, at)
	return backlog.Events, lag
}
