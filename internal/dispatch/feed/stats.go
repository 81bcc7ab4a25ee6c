package feed

import (
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Stats describes what the feeds of a resource hold and have done.
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

// counters has the values of [Stats] that change only while the mutex of the Feeds is held.
// The values are atomic, so [Feeds.Stats] does not wait for a round.
type counters struct {
	interests, logBytes, events, eventBytes, evictions atomic.Int64
}

// Stats returns the current values. It does not wait for a round.
func (fs *Feeds) Stats() Stats {
	return Stats{
		Interests: int(fs.stats.interests.Load()), LogBytes: fs.stats.logBytes.Load(),
		CatchUpBytes: fs.CatchUps.Bytes.Load(), CatchUpStates: fs.Retained.Count(),
		Events: fs.stats.events.Load(), EventBytes: fs.stats.eventBytes.Load(), Evictions: fs.stats.evictions.Load(),
		DispatchedUpTo: *fs.DispatchedUpTo.Load(),
	}
}
