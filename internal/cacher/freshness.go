package cacher

import (
	"sync/atomic"
	"time"
)

// freshness knows when the state last had everything that the store had. An update of the
// watch is not enough to know that: after an outage, the first updates are old.
type freshness struct {
	began  time.Time    // latest counts from here, because wall clocks jump
	latest atomic.Int64 // the latest confirmation, in nanoseconds plus 1; 0: none
	live   atomic.Bool  // since a confirmation, the watch was neither opened again nor silent
}

// confirm notes that the state contained everything that the store had at a time.
func (f *freshness) confirm(at time.Time) {
	offset := max(int64(at.Sub(f.began)), 0) + 1
	for was := f.latest.Load(); was < offset && !f.latest.CompareAndSwap(was, offset); was = f.latest.Load() {
	}
	f.live.Store(true)
}

// updated notes that the state contains all updates that had arrived at a time.
func (f *freshness) updated(at time.Time) {
	if f.live.Load() {
		f.confirm(at)
	}
}

// doubt makes updates count only after the next confirmation.
func (f *freshness) doubt() { f.live.Store(false) }

// Confirmed returns a time at which the state had everything that the store had. A state
// that is loaded afterwards has it, too. It is the zero time if there is none.
func (c *Cacher) Confirmed() time.Time {
	offset := c.fresh.latest.Load()
	if offset == 0 {
		return time.Time{}
	}
	return c.fresh.began.Add(time.Duration(offset - 1))
}
