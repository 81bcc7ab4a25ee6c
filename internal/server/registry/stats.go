package registry

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

	// Applied are the watches by what they have reported.
	Applied AppliedStats

	// Backlog is the largest number of events that wait for one watch. It leaves out watches
	// whose waiting events are older than the log of their feed.
	Backlog int
}

func (s *Stats) add(c Sample) {
	if c.Progress.CatchingUp {
		s.CatchingUp++
	} else {
		s.Live++
	}
	if c.Progress.Blocked {
		s.Blocked++
	}
	s.Applied.add(c.Report)
	if !c.Known || c.Backlog.Events == 0 {
		return
	}
	s.Behind++
	if c.Lag.IsMinimum {
		s.BeyondWindow++
	}
	s.Lag = max(s.Lag, c.Lag.Waited)
	s.Backlog = max(s.Backlog, c.Backlog.Events) // negative if it is unknown
}

// Stats describes the watches of each resource. It takes a microsecond or two for each watch, and
// holds the mutex of a watch only for a moment.
func (r *Registry) Stats() map[string]*Stats {
	all := map[string]*Stats{}
	for name := range r.resources {
		stats := &Stats{Counts: newCounts()}
		for i := range r.counters[name] {
			stats.Counts.add(&r.counters[name][i])
		}
		stats.Begun, stats.ReportedErrors = r.counts[name].begun.Load(), r.counts[name].reportedErrors.Load()
		all[name] = stats
	}
	lags := Lags{}
	r.eachWatch(func(w Watch) { all[w.Resource()].add(SampleOf(w, lags)) })
	return all
}

// AppliedLagBounds are the upper bounds of AppliedStats.ByLag. A watch with nothing to apply
// counts with the first.
var AppliedLagBounds = [...]time.Duration{0, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// AppliedStats has the numbers of watches by their latest reports. Each watch counts in ByLag,
// UnknownLag or Unreported. Those that have reported an error count in Failing, too.
type AppliedStats struct {
	ByLag      [len(AppliedLagBounds) + 1]int // by applied lag: the first bound that is not exceeded; then those that exceed all bounds
	UnknownLag int                            // without a cache, and within a RESET
	Unreported int                            // have not reported a position, or not since the last RESET began
	Failing    int                            // have reported an error
}

// ReportSample is what metrics need to know of the latest report of a watch.
type ReportSample struct {
	Reported bool // a position was reported, and no RESET has begun since
	Failing  bool // an error was reported

	LagKnown bool // see appliedLag
	Lag      time.Duration
}

func (s *AppliedStats) add(c ReportSample) {
	if c.Failing {
		s.Failing++
	}
	switch {
	case !c.Reported:
		s.Unreported++
		return
	case !c.LagKnown:
		s.UnknownLag++
		return
	}
	i := 0
	for i < len(AppliedLagBounds) && c.Lag > AppliedLagBounds[i] {
		i++
	}
	s.ByLag[i]++
}
