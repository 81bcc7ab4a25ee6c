package dispatch

import (
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Stats describes what a dispatcher holds and has done.
type Stats struct {
	Interests      int             // distinct interests that are watched
	DispatchedUpTo object.Position // all changes up to this position are in the logs of the feeds that they concern; zero: none yet

	LogBytes      int64 // memory of all logs; see Config.LogBytes
	CatchUpBytes  int64 // memory of shared catch-up parts; see Config.CatchUpBytes
	CatchUpStates int   // retained states; see Config.CatchUpStates

	// The counters below never fall.

	Events     int64 // events that were encoded and appended to a log; a change may cause events in several logs
	EventBytes int64 // size of these events
	Evictions  int64 // segments of logs that were dropped to keep the budget
}

// counters has the values of [Stats] that change only while the dispatcher's mutex is held.
// The values are atomic, so [Dispatcher.Stats] does not wait for a round.
type counters struct {
	interests, logBytes, events, eventBytes, evictions atomic.Int64
}

// current returns the current values. It does not wait for the dispatcher.
func (d *feeds) current() Stats {
	s := Stats{
		Interests: d.interests(), LogBytes: d.stats.logBytes.Load(),
		CatchUpBytes: d.catchUps.bytes.Load(), CatchUpStates: d.retained.count(),
		Events: d.stats.events.Load(), EventBytes: d.stats.eventBytes.Load(), Evictions: d.stats.evictions.Load(),
	}
	if p := d.dispatchedUpTo.Load(); p != nil {
		s.DispatchedUpTo = *p
	}
	return s
}

// interests returns the number of distinct interests that are watched.
func (d *feeds) interests() int { return int(d.stats.interests.Load()) }
