package server

import (
	"slices"
	"time"
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
	all, active := s.sessions.counted()
	for name := range s.resources {
		if all[name] == nil {
			all[name] = &WatchStats{WatchCounts: newWatchCounts()}
		}
	}
	for _, one := range active {
		name := one.request.GetResource()
		stats := all[name]
		stats.add(one)
		if one.catching.Load() {
			stats.CatchingUp++
		} else {
			stats.Live++
		}
		if one.blocked() {
			stats.Blocked++
		}
		events, lag := s.resources[name].waiting(one)
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
func (r *Resource) waiting(s *session) (events int, lag time.Duration) {
	w, ok := s.watcher.(*live)
	at := s.position()
	if !ok || at.Revision == 0 {
		return 0, 0
	}
	backlog, _, lag := cached{r.Cacher, r.Dispatcher}.backlog(w.Watcher, at)
	return backlog.Events, lag
}

// counted returns what the watches were sent that have ended, and those that have not.
// Who looks at these afterwards counts each watch once, and no count is ever less than
// it was before: what ends meanwhile is still looked at.
func (a *sessions) counted() (ended map[string]*WatchStats, active []*session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ended = make(map[string]*WatchStats, len(a.ended))
	for name, counts := range a.ended {
		copied := *counts
		copied.Latency.Counts = slices.Clone(counts.Latency.Counts)
		copied.Batches.Counts = slices.Clone(counts.Batches.Counts)
		ended[name] = &WatchStats{WatchCounts: copied}
	}
	active = make([]*session, 0, len(a.active))
	for _, s := range a.active {
		active = append(active, s)
	}
	return ended, active
}
