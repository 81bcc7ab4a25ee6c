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

	// BeyondWindow is the number of watches whose oldest waiting event has left the window, so
	// that only a minimum of their lag is known.
	BeyondWindow int

	// Lag is the longest time that any event has been waiting for any watch. It is at least
	// this time if BeyondWindow is not 0.
	Lag time.Duration

	// Applied are the watches by what they have reported.
	Applied AppliedStats

	// Backlog is the largest number of events that wait for one watch. It leaves out watches
	// whose waiting events are older than the log of their feed.
	Backlog int
}

// Condition is what metrics need to know of a watch.
type Condition struct {
	CatchingUp bool
	Blocked    bool // a message waits for the client
	NoPosition bool // nothing was sent, or a RESET is being sent

	LagKnown bool // Backlog and Lag are known; see Entry.lag
	Backlog  dispatch.Backlog
	Lag      backend.Lag

	Report ReportCondition
}

func (s *Stats) add(c Condition) {
	if c.CatchingUp {
		s.CatchingUp++
	} else {
		s.Live++
	}
	if c.Blocked {
		s.Blocked++
	}
	s.Applied.add(c.Report)
	if !c.LagKnown || c.Backlog.Events == 0 {
		return
	}
	s.Behind++
	if c.Lag.IsMinimum {
		s.BeyondWindow++
	}
	s.Lag = max(s.Lag, c.Lag.Waited)
	s.Backlog = max(s.Backlog, c.Backlog.Events) // negative if it is unknown
}

// Stats describes the watches of each resource. It takes a microsecond or two for each watch,
// and holds the lock of an entry only for a moment.
func (s *Service) Stats() map[string]*Stats {
	all := map[string]*Stats{}
	for name := range s.cfg.Resources {
		stats := &Stats{Counts: newCounts()}
		for i := range s.counters[name] {
			stats.Counts.add(&s.counters[name][i])
		}
		all[name] = stats
	}
	s.Registry.each(func(e *Entry) { all[e.Resource()].add(e.Condition(nil)) })
	lags := Lags{}
	for stream := range s.Registry.openStreams() {
		for w := range stream.After(0) {
			all[w.Resource()].add(w.Condition(lags))
		}
	}
	return all
}
