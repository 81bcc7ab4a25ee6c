package server

import (
	"context"
	"math/rand/v2"
	"time"
)

// timeLimit returns how long a watch may last: between four fifths of the
// configured time and all of it, at random, so that watches which began together
// do not end together. 0 means without end.
func (f *fanout) timeLimit() time.Duration {
	if f.watchTimeLimit <= 0 {
		return 0
	}
	return f.watchTimeLimit - rand.N(f.watchTimeLimit/5+1)
}

// shorter returns the shorter of two times, of which 0 is endless.
func shorter(a, b time.Duration) time.Duration {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// lastBookmark returns when to send the last bookmark of a watch that ends with
// its context or at its limit; zero if it has no end. It is a second before, or a
// tenth of the time if that is less, which is enough for the way to the client.
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
