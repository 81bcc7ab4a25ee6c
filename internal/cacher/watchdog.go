package cacher

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// maxSilentChecks is how many checks in a row may find the watch silent while the store
// is ahead of it.
const maxSilentChecks = 3

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
	ticker := time.NewTicker(c.cfg.ProgressInterval)
	defer ticker.Stop()
	seen, silent := c.updates.Load(), 0
	away := false // the watchdog has cleared c.following and logged it
	answered := func() {
		if away {
			away = false
			c.following.Store(true)
			c.log.Info("the store answers again")
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if n := c.updates.Load(); n != seen {
			seen, silent = n, 0
			answered()
			if !c.fresh.live.Load() {
				c.confirm(ctx)
			}
			continue
		}
		c.fresh.doubt() // the next updates may be old
		reached, asked := object.Revision(c.reached.Load()), time.Now()
		call, cancel := context.WithTimeout(ctx, c.cfg.ReadWait)
		now, err := c.cfg.Store.Revision(call)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case c.updates.Load() != seen: // an update came meanwhile; the next check counts it
			if err == nil {
				c.confirm(ctx) // the update itself proves nothing after the doubt
			}
		case err != nil:
			if c.following.CompareAndSwap(true, false) {
				away = true
				c.log.Warn("the store does not answer", "error", err)
			}
		case now < reached:
			return errWentBack
		case now == reached:
			silent = 0
			answered()
			c.confirmContact(asked)
			c.fresh.confirm(asked)
		default:
			if silent++; silent == maxSilentChecks {
				return errSilentWatch
			}
		}
	}
}

// confirm makes the state reach the store's revision, if the store answers. Later updates
// then prove that the state is current.
func (c *Cacher) confirm(ctx context.Context) {
	_, _ = c.Read(ctx, Consistency{}) // the watchdog tries again
}

// confirmContact notes that the state contained everything that the store had at the
// given time. A watch that was opened at a revision still to come is silent, but the
// state is not old.
func (c *Cacher) confirmContact(at time.Time) {
	if was := c.lastContact.Load(); was < at.UnixNano() {
		c.lastContact.CompareAndSwap(was, at.UnixNano())
	}
}
