package dispatch

import (
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Stats is what a dispatcher holds and has done since it was made.
type Stats struct {
	Interests int             // distinct ones that are being watched
	Through   object.Position // all changes up to it are in the logs they concern; zero: none yet

	LogBytes      int64 // memory of the logs of all feeds; see Config.FeedBytes
	CatchUpBytes  int64 // what is shared by those who catch up; see Config.CatchUpBytes
	CatchUpStates int   // states that are kept for them; see Config.CatchUpStates

	// What follows never falls.

	Events     int64 // encoded and appended, once for each interest that they concern
	EventBytes int64 // their size
	Evictions  int64 // pieces of logs that were forgotten because the logs were over their budget
}

// stats is what Stats shows of what the dispatcher's mutex guards: who looks shall not
// wait for a round that takes long, least of all then.
type stats struct {
	interests, logBytes, events, eventBytes, evictions atomic.Int64
}

// Stats returns what there is to say at the moment. It does not wait for the
// dispatcher.
func (d *Dispatcher) Stats() Stats {
	s := Stats{
		Interests: d.Interests(), LogBytes: d.stats.logBytes.Load(),
		CatchUpBytes: d.memos.bytes.Load(), CatchUpStates: d.pins.count(),
		Events: d.stats.events.Load(), EventBytes: d.stats.eventBytes.Load(), Evictions: d.stats.evictions.Load(),
	}
	if p := d.through.Load(); p != nil {
		s.Through = *p
	}
	return s
}

// Interests returns the number of distinct interests that are being watched.
func (d *Dispatcher) Interests() int { return int(d.stats.interests.Load()) }

// count returns how many states are kept.
func (p *pins) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}
