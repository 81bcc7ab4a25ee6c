package cacher

import (
	"context"
	"errors"
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

// progressDemand decides when the store is asked how far the watch is: at once
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

// Why a watch is given up although it has not failed.
var (
	errWentBack = errors.New("the store is behind what it has said before")
	errSilent   = errors.New("the store is ahead and its watch says nothing")
)

// pulse makes progress requests on the stream until ctx is done, and returns why
// the stream is to be given up, if it is. Errors of the requests do not matter:
// whoever reads the stream gets them, too.
func (c *Cacher) pulse(ctx context.Context, stream object.Stream) error {
	timer := time.NewTimer(c.cfg.ProgressInterval)
	defer timer.Stop()
	heard, silent := c.heard.Load(), 0
	for {
		idle := false
		select {
		case <-ctx.Done():
			return nil
		case <-c.progress.asked:
		case <-timer.C:
			idle = c.progress.waiting.Load() == 0
		}
		_ = stream.RequestProgress(ctx)
		if idle {
			// Had the last request been answered, something would have been heard.
			if n := c.heard.Load(); n != heard {
				heard, silent = n, 0
			} else if err := c.silence(ctx, &silent); err != nil {
				return err
			}
		}
		if c.progress.waiting.Load() > 0 {
			timer.Reset(progressRetry)
		} else {
			timer.Reset(c.cfg.ProgressInterval)
		}
	}
}

// silence decides what to make of a stream that has not said anything, not even
// how far it is. It may have been opened at a revision that is still to come, and
// then nothing is wrong, unless it does not come because the store went back. It
// may be broken: etcd has had bugs that made it so.
func (c *Cacher) silence(ctx context.Context, times *int) error {
	before := c.State()
	if before == nil {
		return nil
	}
	now, err := c.cfg.Store.Revision(ctx)
	switch {
	case err != nil:
		return nil // the store is away; the stream will tell
	case now < before.Revision():
		return errWentBack
	case now == before.Revision():
		*times = 0
		return nil
	}
	if *times++; *times < 3 {
		return nil
	}
	return errSilent
}
