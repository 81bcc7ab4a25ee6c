package direct

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// progressRetry is the time between progress requests until the tail has reached the
// store's revision. The store does not answer a request while its watch is behind.
const progressRetry = 50 * time.Millisecond

// errNoProgress means that the watch may be silent.
var errNoProgress = errors.New("the watch does not reach the revision of the store")

// runWatchdog makes the tail reach the store's revision at intervals, and when checkUpToDate
// asks for it, until ctx is done. It does so even if the watch wants no bookmarks, for two
// reasons. A watch that has missed nothing must not stay at an old position: the store may have
// forgotten it when the client resumes. And a watch that has become silent would never be noticed;
// then runWatchdog returns [cacher.ErrSilentWatch].
func (t *tail) runWatchdog(ctx context.Context, watch object.Watch) error {
	interval := t.source.cfg.ProgressInterval
	// The first wait is random, because many watches may have started at once.
	timer := time.NewTimer(interval/2 + rand.N(interval))
	defer timer.Stop()
	silent, asked := 0, false
	defer func() {
		if asked {
			t.checkUpToDate() // the watchdog of the next watch answers
		}
	}()
	var retry <-chan time.Time // after a requested check that failed
	for {
		regular := false
		select {
		case <-ctx.Done():
			return nil
		case <-t.checks:
			asked = true
		case <-retry:
		case <-timer.C:
			regular = true
		}
		before := t.reached()
		switch err := t.reachStore(ctx, watch); {
		case errors.Is(err, cacher.ErrEpochChanged):
			return err // a watch of keys may not notice a new epoch
		case err == nil:
			silent = 0
			if asked {
				asked = false
				t.upToDate.Store(true)
				t.wakeReader()
			}
		case t.reached() != before:
			silent = 0
		case regular && errors.Is(err, errNoProgress): // requests may come in quick succession
			if silent++; silent == cacher.MaxSilentChecks {
				return cacher.ErrSilentWatch
			}
		}
		if regular {
			timer.Reset(interval/2 + rand.N(interval))
		}
		if retry = nil; asked {
			retry = time.After(backoff.Jitter(2 * retryInterval))
		}
	}
}

// reachStore waits until the tail has reached the store's present revision. It returns
// errNoProgress if the store returns its revision and the watch does not reach it in time. After
// an error, updates no longer confirm the state, because they may be old.
func (t *tail) reachStore(ctx context.Context, watch object.Watch) (err error) {
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
		_ = watch.RequestProgress(ctx) // the next request may help where one fails
		if !backoff.Sleep(ctx, progressRetry) {
			return errNoProgress
		}
	}
	t.fresh.Confirm(asked)
	return nil
}

// checkUpToDate makes the watchdog bring the tail to the store's present revision, and then set
// upToDate. While the store is away, the watchdog tries again.
func (t *tail) checkUpToDate() {
	t.upToDate.Store(false)
	select {
	case t.checks <- struct{}{}:
	default: // a check is already due
	}
}
