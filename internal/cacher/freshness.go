package cacher

import (
	"sync/atomic"
	"time"
)

// Freshness knows when the reader of a watch last had everything that the store had. An update of the
// watch is not enough to know that: after an outage, the first updates are old. The zero value has
// no confirmation. All methods are safe for concurrent use.
type Freshness struct {
	confirmed latestTime
	live      atomic.Bool // since a confirmation, the watch was neither opened again nor silent
}

// Confirm notes that the reader had everything that the store had at a time.
func (f *Freshness) Confirm(at time.Time) {
	f.confirmed.note(at)
	f.live.Store(true)
}

// Updated notes that the reader has all updates that had arrived at a time.
func (f *Freshness) Updated(at time.Time) {
	if f.live.Load() {
		f.Confirm(at)
	}
}

// Doubt makes updates count only after the next confirmation.
func (f *Freshness) Doubt() { f.live.Store(false) }

// Confirmed returns the latest confirmation, or the zero time if there is none.
func (f *Freshness) Confirmed() time.Time { return f.confirmed.get() }

// latestTime is the latest of the times that were noted.
type latestTime struct{ at atomic.Pointer[time.Time] }

func (l *latestTime) note(at time.Time) {
	for was := l.at.Load(); was == nil || was.Before(at); was = l.at.Load() {
		if l.at.CompareAndSwap(was, &at) {
			return
		}
	}
}

// get returns the zero time if no time was noted.
func (l *latestTime) get() time.Time {
	if at := l.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Confirmed returns a time at which the state had everything that the store had. A state
// that is loaded afterwards has it, too. It is the zero time if there is none.
func (c *Cacher) Confirmed() time.Time { return c.fresh.Confirmed() }
