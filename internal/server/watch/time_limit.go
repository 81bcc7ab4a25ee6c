package watch

import (
	"context"
	"math/rand/v2"
	"time"
)

// RandomLimit returns a time limit between four fifths of the configured limit and the whole
// limit. So watches that began together do not end together. 0 means no limit.
func RandomLimit(configured time.Duration) time.Duration {
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

// LastBookmark returns when to send the last bookmark of a watch, or the zero time if the
// watch has neither a deadline nor a limit. The watch ends at the deadline of ctx or when the
// limit has passed, whichever is earlier. The last bookmark is due one second before the end,
// so it can still reach the client. A watch of less than ten seconds gets it when a tenth of its
// time is left.
func LastBookmark(ctx context.Context, now time.Time, limit time.Duration) time.Time {
	left := limit
	if deadline, ok := ctx.Deadline(); ok {
		left = shorter(left, max(deadline.Sub(now), 1))
	}
	if left == 0 {
		return time.Time{}
	}
	return now.Add(left - min(time.Second, left/10))
}
