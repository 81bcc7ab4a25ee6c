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

// add counts a watch.
func (s *AppliedStats) add(e *Entry) {
	applied, failure := e.reported()
	if failure != nil {
		s.Failing++
	}
	if applied == (object.Position{}) {
		s.Unreported++
		return
	}
	lag, ok := e.appliedLag(applied, e.position())
	if !ok {
		s.UnknownLag++
		return
	}
	i := 0
	for i < len(AppliedLagBounds) && lag > AppliedLagBounds[i] {
		i++
	}
	s.ByLag[i]++
}
