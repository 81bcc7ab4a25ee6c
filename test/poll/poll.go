// Package poll waits for conditions that no channel announces, without keeping a
// processor busy, and bounds all waits of tests.
package poll

import (
	"context"
	"testing"
	"time"
)

// Until waits until the condition holds. The test fails if it does not hold within Patience.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if !Wait(ctx, holds) {
		t.Fatalf("gave up waiting until %s", what)
	}
}

// Wait waits until the condition holds and returns true, or returns false when ctx ends
// first. The pauses between checks grow from a tenth of a millisecond to ten milliseconds.
func Wait(ctx context.Context, holds func() bool) bool {
	pause := 100 * time.Microsecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		pause = min(2*pause, 10*time.Millisecond)
		timer.Reset(pause)
	}
	return true
}
