package cacher

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/fanoutd/fanoutd/internal/object"
)

const (
	// progressRetry is the time between progress requests while a reader waits. etcd
	// does not answer a request while the watch is behind.
	progressRetry = 50 * time.Millisecond

	// minRequestInterval is the shortest time between progress requests of callers that
	// do not wait. There may be ten thousand of them.
	minRequestInterval = 50 * time.Millisecond
)

// progressDemand makes the progress ticker request progress: at once when a
// reader starts to wait for a revision, repeatedly while a reader waits, and at long
// intervals otherwise.
type progressDemand struct {
	waiting  atomic.Int64   // number of waiting readers
	requests chan struct{}  // capacity 1: request progress now
	limit    rate.Sometimes // of requestSoon
}

// wait registers a caller that waits for progress. The caller calls done when it stops.
func (d *progressDemand) wait() {
	d.waiting.Add(1)
	d.request()
}

func (d *progressDemand) done() { d.waiting.Add(-1) }

// requestSoon requests progress for a caller that does not wait, unless another such
// caller has just done so.
func (d *progressDemand) requestSoon() { d.limit.Do(d.request) }

func (d *progressDemand) request() {
	select {
	case d.requests <- struct{}{}:
	default: // a request that serves all callers is already pending
	}
}

// runProgressTicker sends progress requests for the watch until ctx is done. It ignores
// their errors: the reader of the watch gets them, too, and the watchdog notices a
// silent watch.
func (c *Cacher) runProgressTicker(ctx context.Context, watch object.Watch) {
	timer := time.NewTimer(c.cfg.ProgressInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.progress.requests:
		case <-timer.C:
		}
		_ = watch.RequestProgress(ctx)
		if c.progress.waiting.Load() > 0 {
			timer.Reset(progressRetry)
		} else {
			timer.Reset(c.cfg.ProgressInterval)
		}
	}
}
