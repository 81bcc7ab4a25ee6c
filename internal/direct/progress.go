package direct

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/cacher"
)

// progressRetry is the time between progress requests until the tail has reached the
// store's revision. The store does not answer a request while its watch is behind.
const progressRetry = 50 * time.Millisecond

// errNoProgress means that the watch may be silent.
var errNoProgress = errors.New("the watch does not reach the revision of the store")

// runWatchdog makes the tail reach the store's revision at intervals, until ctx is done.
// It does so even if the watcher wants no bookmarks, for two reasons. A watcher that has
// missed nothing must not stay at an old position: the store may have forgotten it when
// the client resumes. And a watch that has become silent would never be noticed; then
// runWatchdog returns [cacher.ErrSilentWatch].
func (t *tail) runWatchdog(ctx context.Context) error {
	interval := t.source.cfg.ProgressInterval
	silent := 0
	// The first wait is random, because many watches may have started at once.
	for backoff.Sleep(ctx, interval/2+rand.N(interval)) {
		before := t.updateCount()
		switch err := t.reachStore(ctx); {
		case errors.Is(err, cacher.ErrEpochChanged):
			return err // a watch of keys may not notice a new epoch
		case t.updateCount() != before, err == nil:
			silent = 0
		case errors.Is(err, errNoProgress):
			if silent++; silent == cacher.MaxSilentChecks {
				return cacher.ErrSilentWatch
			}
		}
	}
	return nil
}

// reachStore waits until the tail has reached the store's present revision. It returns
// errNoProgress if the store returns its revision and the watch does not reach it in time. After
// an error, updates no longer confirm the state, because they may be old.
func (t *tail) reachStore(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			t.fresh.Doubt()
		}
	}()
	asked := time.Now()
	p, err := t.source.Position(ctx, 0)
	if err != nil {
		return err
	}
	if p.Epoch != t.epoch {
		return cacher.ErrEpochChanged
	}
	ctx, cancel := context.WithTimeout(ctx, t.source.cfg.ReadWait)
	defer cancel()
	for t.reached() < p.Revision {
		t.requestProgress(ctx)
		if !backoff.Sleep(ctx, progressRetry) {
			return errNoProgress
		}
	}
	t.confirm(asked)
	return nil
}

// checkUpToDate makes the tail reach the store's present revision, in the background. While the
// store is away, it tries again.
func (t *tail) checkUpToDate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.checking {
		return
	}
	t.checking, t.upToDate = true, false
	t.goroutines.Go(func() {
		err := t.reachStore(t.ctx)
		for err != nil && !errors.Is(err, cacher.ErrEpochChanged) && backoff.Sleep(t.ctx, backoff.Jitter(2*retryInterval)) {
			err = t.reachStore(t.ctx)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.checking = false
		if err == nil {
			t.upToDate = true
			t.wakeWatcher()
		}
	})
}

// isUpToDate reports whether the last checkUpToDate has brought the tail to the revision
// that the store had then.
func (t *tail) isUpToDate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.upToDate
}
