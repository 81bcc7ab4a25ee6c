package watch

import (
	"context"
	"math/rand/v2"
	"time"
)

// randomLimit returns a time limit between four fifths of the configured one and all of it,
// so that watches that began together do not end together. 0 means no limit.
func randomLimit(configured time.Duration) time.Duration {
	if configured <= 0 {
		return 0
	}
	return configured - rand.N(configured/5+1)
}

// shorter returns the shorter of two limits. 0 means no limit.
func shorter(a, b time.Duration) time.Duration {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// lastBookmark returns when to send the last bookmark of a watch that ends with its context
// or at its limit, or zero if it has no end. That is a second before the end, or a tenth of
// the time if that is less: enough for the way to the client.
func lastBookmark(ctx context.Context, limit time.Duration) time.Time {
	left := limit
	if deadline, ok := ctx.Deadline(); ok {
		left = shorter(left, max(time.Until(deadline), 1))
	}
	if left == 0 {
		return time.Time{}
	}
	return time.Now().Add(left - min(time.Second, left/10))
}
