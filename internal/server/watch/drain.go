package watch

import (
	"context"
	"math/rand/v2"
	"time"
)

// DrainClock is the clock that paces a drain. Tests have their own.
type DrainClock interface {
	// Now returns the present time.
	Now() time.Time
	// Wait returns true at the time, or false if ctx or done came first.
	Wait(ctx context.Context, until time.Time, done <-chan struct{}) bool
}

// drainGap is the longest slice of a drain for one watch. A hundred clients that reconnect
// within a second are no burden, so the drain of a few watches is short.
const drainGap = 10 * time.Millisecond

// endSpread refuses new watches and ends the present ones over the period. Each watch has an
// equal slice of the period, and ends at a random moment of it. endSpread returns when all have
// been asked to end, none is left, or ctx is done. It does not wait for watches whose clients
// do not read.
func (r *Registry) endSpread(ctx context.Context, period time.Duration) {
	entries := r.refuseNew()
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
	for _, e := range r.refuseNew() {
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
