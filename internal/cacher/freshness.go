package cacher

import (
	"sync/atomic"
	"time"
)

// Freshness knows when the reader of a watch last had everything that the store had. An update of the
// watch is not enough to know that: after an outage, the first updates are old. All methods are safe
// for concurrent use.
type Freshness struct {
	began  time.Time    // latest counts from here, because wall clocks jump
	latest atomic.Int64 // the latest confirmation, in nanoseconds plus 1; 0: none
	live   atomic.Bool  // since a confirmation, the watch was neither opened again nor silent
}

// NewFreshness returns a Freshness without a confirmation.
func NewFreshness() Freshness { return Freshness{began: time.Now()} }

// Confirm notes that the reader had everything that the store had at a time.
func (f *Freshness) Confirm(at time.Time) {
	offset := max(int64(at.Sub(f.began)), 0) + 1
	for was := f.latest.Load(); was < offset && !f.latest.CompareAndSwap(was, offset); was = f.latest.Load() {
	}
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
func (f *Freshness) Confirmed() time.Time {
	offset := f.latest.Load()
	if offset == 0 {
		return time.Time{}
	}
	return f.began.Add(time.Duration(offset - 1))
}

// Confirmed returns a time at which the state had everything that the store had. A state
// that is loaded afterwards has it, too. It is the zero time if there is none.
func (c *Cacher) Confirmed() time.Time { return c.fresh.Confirmed() }
