package e2e

import (
	"context"
	"testing"
	"time"
)

// pace limits the rate of writers, so that a test does not use more than its share of
// the machine.
type pace struct{ ticks *time.Ticker }

// newPace returns a pace for all writers together.
func newPace(t *testing.T, perSecond int) *pace {
	t.Helper()
	p := &pace{time.NewTicker(time.Second / time.Duration(perSecond))}
	t.Cleanup(p.ticks.Stop)
	return p
}

// next waits for the next write. It returns false when writing is over.
func (p *pace) next(ctx context.Context) bool {
	select {
	case <-p.ticks.C:
		return true
	case <-ctx.Done():
		return false
	}
}
