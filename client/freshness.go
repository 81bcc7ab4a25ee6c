package client

import (
	"math"
	"sync/atomic"
	"time"
)

// freshness knows whether the copy of an informer may be out of date. Any goroutine may use
// it. Times are nanoseconds since it was made, which fit an atomic and do not jump with the
// clock.
type freshness struct {
	began time.Time
	limit time.Duration // how long the copy counts as current after AsOf
	asOf  atomic.Int64  // the latest [Update.AsOf] of the copy
	lost  atomic.Int64  // when the watch was last interrupted; earlier confirmations do not count
}

func newFreshness(limit time.Duration) *freshness {
	f := &freshness{began: time.Now(), limit: limit}
	f.asOf.Store(math.MinInt64)
	f.lost.Store(math.MinInt64)
	return f
}

// confirm notes that the copy was current at a time.
func (f *freshness) confirm(asOf time.Time) { raise(&f.asOf, int64(asOf.Sub(f.began))) }

// interrupt makes the copy stale until it is confirmed for a time after this one.
func (f *freshness) interrupt(at time.Time) { raise(&f.lost, int64(at.Sub(f.began))) }

// end makes the copy stale for ever.
func (f *freshness) end() { raise(&f.lost, math.MaxInt64) }

// raise stores a value unless the present one is larger.
func raise(v *atomic.Int64, to int64) {
	for {
		now := v.Load()
		if now >= to || v.CompareAndSwap(now, to) {
			return
		}
	}
}

func (f *freshness) stale() bool {
	asOf := f.asOf.Load()
	return asOf <= f.lost.Load() || time.Since(f.began)-time.Duration(asOf) > f.limit
}

// minFreshness is the least time for which a copy counts as current. A server may need some
// seconds to find out that etcd has nothing new.
const minFreshness = 10 * time.Second

// arrivals bounds when the messages of a stream have arrived. The time at which a message is
// read says little: while the caller is busy, messages wait in a buffer.
type arrivals struct {
	since  time.Time     // the messages that are read from now on have arrived after this time
	next   time.Time     // when waited began to count
	waited time.Duration // total time of waiting for messages since next
}

// drained is the time of waiting for messages after which the buffer must have been empty
// meanwhile. Reading all messages of a full buffer takes less.
const drained = 50 * time.Millisecond

// received returns a time after which the message arrived that was read between two times.
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
