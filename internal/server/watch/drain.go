package watch

import (
	"context"
	"math/rand/v2"
	"time"
)

// DrainClock is the time by which watches end. Tests have their own.
type DrainClock interface {
	// Now returns the present time.
	Now() time.Time
	// Wait returns at the time, or when ctx or the channel is done, and reports whether it
	// was the time.
	Wait(ctx context.Context, until time.Time, done <-chan struct{}) bool
}

// drainGap is the longest time between the ends of two watches. A hundred clients that come
// back within a second hurt nobody, so a few watches need no time.
const drainGap = 10 * time.Millisecond

// spread refuses new watches and ends the present ones, evenly over the period: each in a
// slice of it, at a random moment. It returns when all have been asked to end, none is left,
// or ctx is done. It does not wait for watches whose clients do not read.
func (r *Registry) spread(ctx context.Context, period time.Duration) {
	entries := r.drain()
	count := time.Duration(len(entries))
	period = min(period, count*drainGap)
	began := r.clock.Now()
	for i, e := range entries {
		slice := period / count
		at := began.Add(period*time.Duration(i)/count + rand.N(max(slice, 1)))
		if !r.clock.Wait(ctx, at, r.empty) {
			return
		}
		r.endOne(e)
	}
}

// endAll refuses new watches, ends the present ones and waits for them. To end watches whose
// clients do not read, the caller closes their connections.
func (r *Registry) endAll() {
	for _, e := range r.drain() {
		r.endOne(e)
	}
	<-r.empty
}

// SetDrainClock replaces the clock. It is for tests.
func (s *Service) SetDrainClock(c DrainClock) { s.Registry.clock = c }

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) Wait(ctx context.Context, until time.Time, done <-chan struct{}) bool {
	left := time.Until(until)
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
	case <-ctx.Done():
	}
	return false
}
