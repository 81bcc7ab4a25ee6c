package client

import (
	"sync/atomic"
	"time"
)

// freshness decides whether the copy of an informer may be out of date. Any goroutine may use
// it.
type freshness struct {
	limit time.Duration             // how long a copy counts as current after it was confirmed
	lost  atomic.Pointer[time.Time] // when the watch was last interrupted; nil: never
	ended atomic.Bool               // there will be no further updates
}

// interrupt makes every copy stale that was not confirmed after this time.
func (f *freshness) interrupt(at time.Time) { f.lost.Store(&at) }

// end makes every copy stale for ever.
func (f *freshness) end() { f.ended.Store(true) }

// stale reports whether a copy may be out of date that a server confirmed at a time; see
// [Update.AsOf].
func (f *freshness) stale(asOf time.Time) bool {
	lost := f.lost.Load()
	return f.ended.Load() || asOf.IsZero() || lost != nil && !asOf.After(*lost) || time.Since(asOf) > f.limit
}

// arrivals estimates when the messages of a stream arrived. While the caller is busy, messages
// wait in a buffer, so a message may have arrived long before it is read. But if the stream has
// to wait for messages, the buffer is empty.
type arrivals struct {
	since  time.Time     // all messages that are read from now on arrived after this time
	next   time.Time     // the next value of since, once waited is long enough
	waited time.Duration // total time of waiting for messages since next
}

func newArrivals() arrivals {
	now := time.Now()
	return arrivals{since: now, next: now}
}

// drained is a total waiting time that shows that the buffer was empty at least once. Reading
// a full buffer takes less.
const drained = 50 * time.Millisecond

// received returns a time after which a message arrived. Reading the message began at called
// and ended at returned.
func (a *arrivals) received(called, returned time.Time) time.Time {
	wait := returned.Sub(called)
	a.waited += wait
	switch {
	case wait >= drained:
		a.since, a.next, a.waited = returned, returned, 0
	case a.waited >= drained:
		a.since, a.next, a.waited = a.next, returned, 0
	}
	return a.since
}
