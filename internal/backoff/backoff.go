// Package backoff spaces out attempts at something that has failed.
//
// The delay doubles with each attempt. Each wait is a random part of the delay, between
// half of it and all of it, so that those that wait for the same thing, such as the
// resources and replicas of one store, do not return at the same moment:
//
//	attempts := backoff.OfStore
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

// Backoff computes the waits between attempts.
type Backoff struct {
	First, Most time.Duration // the first delay, and the longest one
	delay       time.Duration // the next one; 0: the first
}

// OfStore is for attempts to reach the store.
var OfStore = Backoff{First: 50 * time.Millisecond, Most: 5 * time.Second}

// Next returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	d := max(b.delay, b.First)
	b.delay = min(2*d, b.Most)
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
