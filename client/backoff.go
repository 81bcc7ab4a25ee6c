package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// retry says how long to wait before the next try: anything from nothing to a
// time that doubles with each try. Full jitter is what spreads those best who have
// all lost the same server.
type retry struct {
	first, most time.Duration
	tries       int
}

// next returns how long to wait now.
func (b *retry) next() time.Duration {
	limit := b.most
	if b.tries < 30 {
		limit = min(b.first<<b.tries, b.most)
	}
	b.tries++
	return jitter(limit)
}

// reset begins anew: a try has succeeded.
func (b *retry) reset() { b.tries = 0 }

// jitter returns a random time up to the limit.
func jitter(limit time.Duration) time.Duration { return rand.N(limit + 1) }

// sleep waits. It returns why ctx has ended if it does so first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
