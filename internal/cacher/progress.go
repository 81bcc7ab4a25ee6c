package cacher

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

const (
	// progressRetry is how long to wait for an answer to a progress request
	// before asking again: etcd does not answer while the watch is behind.
	progressRetry = 50 * time.Millisecond

	// hintEvery is how often at most the store is asked for the sake of those who
	// do not wait: there may be ten thousand of them.
	hintEvery = 50 * time.Millisecond
)

// progressDemand decides when the store is asked how far its watch is: at once
// when somebody begins to wait for a revision, repeatedly while somebody waits,
// and at long intervals otherwise.
type progressDemand struct {
	waiting *atomic.Int64
	asked   chan struct{} // capacity 1: somebody began to wait
	hinted  *atomic.Int64 // when somebody last asked who does not wait; Unix nanoseconds
}

func newProgressDemand() progressDemand {
	return progressDemand{waiting: new(atomic.Int64), asked: make(chan struct{}, 1), hinted: new(atomic.Int64)}
}

// wait says that the caller waits for progress until it calls done.
func (d progressDemand) wait() {
	d.waiting.Add(1)
	d.ask()
}

func (d progressDemand) done() { d.waiting.Add(-1) }

// hint has the store asked soon, without waiting for the answer.
func (d progressDemand) hint() {
	last, now := d.hinted.Load(), time.Now().UnixNano()
	if now-last < int64(hintEvery) || !d.hinted.CompareAndSwap(last, now) {
		return // somebody else has just asked
	}
	d.ask()
}

func (d progressDemand) ask() {
	select {
	case d.asked <- struct{}{}:
	default: // a request for everybody who waits by now is about to be made
	}
}

// pulse makes progress requests on the stream until ctx is done. Errors of the
// requests do not matter: whoever reads the stream gets them, too, and [Cacher.heed]
// notices when there is nothing to read.
func (c *Cacher) pulse(ctx context.Context, stream object.Stream) {
	timer := time.NewTimer(c.cfg.ProgressInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.progress.asked:
		case <-timer.C:
		}
		_ = stream.RequestProgress(ctx)
		if c.progress.waiting.Load() > 0 {
			timer.Reset(progressRetry)
		} else {
			timer.Reset(c.cfg.ProgressInterval)
		}
	}
}
