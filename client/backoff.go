package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff computes the delays between retries. A delay is random between zero and a
// limit that doubles with each retry (full jitter), so that clients that lost the
// same server do not come back together.
type backoff struct {
	first, most time.Duration // limits of the first retry and of all retries
	retries     int
}

// next returns how long to wait before the next retry.
func (b *backoff) next() time.Duration {
	limit := b.most
	if b.retries < 30 {
		limit = min(b.first<<b.retries, b.most)
	}
	b.retries++
	return jitter(limit)
}

// reset makes the next delay as short as the first one.
func (b *backoff) reset() { b.retries = 0 }

// jitter returns a random duration from zero to the limit.
func jitter(limit time.Duration) time.Duration { return rand.N(limit + 1) }

// sleep waits for d. If ctx or the client ends first, it returns the cause.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.open.Done():
		return ErrClosed
	case <-timer.C:
		return nil
	}
}

// sleep waits for d. If ctx ends first, it returns the cause.
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
