package cacher

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces out attempts: doubling from 50 ms to 5 s, each between half of
// that and all of it at random, so that the cachers and replicas of one store do
// not come back together.
type backoff struct{ delay time.Duration }

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

func newBackoff() *backoff { return &backoff{delay: minBackoff} }

// next returns how long to wait before the next attempt.
func (b *backoff) next() time.Duration {
	d := b.delay/2 + rand.N(b.delay/2)
	b.delay = min(2*b.delay, maxBackoff)
	return d
}

// reset says that an attempt succeeded.
func (b *backoff) reset() { b.delay = minBackoff }

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
