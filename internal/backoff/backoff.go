// Package backoff spaces out attempts to reach a store that is unavailable.
//
// The delay doubles from 50 ms to 5 s. Each wait is a random part of the delay, between
// half of it and all of it, so that the resources and replicas of one store do not
// return at the same moment:
//
//	var attempts backoff.Backoff
//	for try() != nil {
//		if !backoff.Sleep(ctx, attempts.Next()) {
//			return ctx.Err()
//		}
//	}
//
// A Backoff belongs to one goroutine.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	minDelay = 50 * time.Millisecond
	maxDelay = 5 * time.Second
)

// Backoff computes the waits between attempts. The zero value is ready to use.
type Backoff struct{ delay time.Duration }

// Next returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	d := max(b.delay, minDelay)
	b.delay = min(2*d, maxDelay)
	return Jitter(d)
}

// Reset starts over with the shortest delay. Call it after an attempt that succeeded.
func (b *Backoff) Reset() { b.delay = 0 }

// Jitter returns a random duration between half of d and d.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
