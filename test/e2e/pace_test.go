package e2e

import (
	"context"
	"testing"
	"time"
)

// pace keeps writers from writing as fast as they can, so that a test takes its
// time and not more than its share of the machine.
type pace struct{ ticks *time.Ticker }

// newPace lets all writers that share it write so often per second together.
func newPace(t *testing.T, perSecond int) *pace {
	t.Helper()
	p := &pace{time.NewTicker(time.Second / time.Duration(perSecond))}
	t.Cleanup(p.ticks.Stop)
	return p
}

// next waits for the next write. It returns false when there is no more.
func (p *pace) next(ctx context.Context) bool {
	select {
	case <-p.ticks.C:
		return true
	case <-ctx.Done():
		return false
	}
}
