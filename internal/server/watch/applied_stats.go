package watch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

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

// ReportCondition is what metrics need to know of the latest report of a watch.
type ReportCondition struct {
	Reported bool // a position was reported, and no RESET has begun since
	Failing  bool // an error was reported

	LagKnown bool // see Entry.appliedLag
	Lag      time.Duration
}

func (s *AppliedStats) add(c ReportCondition) {
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

// reportCondition returns the condition of the latest report. The position at is that of the
// latest message, and sent is how far the watch is behind after it.
func (e *Entry) reportCondition(at object.Position, sent Condition) ReportCondition {
	reported := e.Reported()
	c := reported.Condition()
	switch {
	case !c.Reported:
	case reported.Applied == at: // most watches
		c.Lag, c.LagKnown = AppliedLagOf(sent.Backlog, sent.Lag), sent.LagKnown
	default:
		c.Lag, c.LagKnown = e.appliedLag(reported.Applied, at)
	}
	return c
}
