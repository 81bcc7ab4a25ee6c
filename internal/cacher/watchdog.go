package cacher

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// MaxSilentChecks is how many checks in a row may find the watch silent while the store
// is ahead of it.
const MaxSilentChecks = 3

// awayInterval is the longest time between checks while the store does not answer.
const awayInterval = time.Second

// runWatchdog checks at intervals whether the watch has delivered an update, if only a
// progress notification. The progress ticker asks for one at least as often. If no update
// came, the watchdog asks the store for its revision. It runs until ctx is done or returns
// the reason to give the watch up.
//
// A silent watch does not always fail. The etcd client keeps trying to reach an etcd that is
// away. And a watch may be silent while etcd answers:
//   - It was opened at a revision that is still to come. Nothing is wrong, unless the
//     store went back and that revision will not come.
//   - It is broken. Some releases of etcd had such bugs.
func (c *Cacher) runWatchdog(ctx context.Context) error {
	timer := time.NewTimer(c.cfg.ProgressInterval)
	defer timer.Stop()
	seen, silent := c.updates.Load(), 0
	away := false // the watchdog has cleared c.following and logged it
	answered := func() {
		c.following.Store(true)
		if away {
			away = false
			c.log.Info("the store answers again")
		}
	}
	checks := c.checks // nil after a failure, until the timer fires
	for {
		regular := true
		select {
		case <-ctx.Done():
			return nil
		case <-checks:
			regular = false
		case <-timer.C:
			timer.Reset(c.cfg.ProgressInterval)
			checks = c.checks
		}
		if n := c.updates.Load(); n != seen {
			seen, silent = n, 0
			if c.fresh.live.Load() || c.confirm(ctx) {
				answered()
			} else {
				checks = nil
			}
			continue
		}
		c.fresh.Doubt() // the next updates may be old
		reached, asked := object.Revision(c.reached.Load()), time.Now()
		call, cancel := context.WithTimeout(ctx, c.cfg.ReadWait)
		now, err := c.cfg.Store.Revision(call)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case c.updates.Load() != seen: // an update came meanwhile; the next check counts it
			if err == nil && c.confirm(ctx) { // the update itself proves nothing after the doubt
				answered()
			}
		case err != nil:
			checks = nil
			timer.Reset(min(awayInterval, c.cfg.ProgressInterval))
			if c.following.CompareAndSwap(true, false) {
				away = true
				c.log.Warn("the store does not answer", "error", err)
			}
		case now < reached:
			return errWentBack
		case now == reached:
			silent = 0
			answered()
			c.lastContact.note(asked) // the watch may be silent because its first revision is still to come
			c.fresh.Confirm(asked)
		case regular:
			if silent++; silent == MaxSilentChecks {
				return ErrSilentWatch
			}
		}
	}
}

// checkSoon makes the watchdog check the watch now. It does not wait.
func (c *Cacher) checkSoon() {
	select {
	case c.checks <- struct{}{}:
	default: // a check is already due
	}
}

// confirm makes the state reach the store's revision, and reports whether the store answered.
// Later updates then prove that the state is current. If it fails, the watchdog tries again.
func (c *Cacher) confirm(ctx context.Context) bool {
	_, err := c.Read(ctx, object.Consistency{})
	return err == nil
}
