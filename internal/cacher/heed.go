package cacher

import (
	"context"
	"errors"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Why a watch is given up although it has not failed.
var (
	errWentBack = errors.New("the store is behind what it has said before")
	errSilent   = errors.New("the store is ahead and its watch says nothing")
)

// patience is how often in a row a watch may be found silent while the store is
// ahead of it.
const patience = 3

// heed looks at intervals whether the watch has said anything, be it only how far it
// is, which it is asked at least as often. Where it has not, the store is asked
// itself, until ctx is done. The error says why the watch is to be given up, if it is.
//
// A watch of etcd does not fail when etcd is gone: the client tries to connect for
// ever. And it may say nothing though etcd is there: because it was opened at a
// revision that is still to come, and then nothing is wrong, unless that does not
// come because the store went back; or because it is broken. etcd has had bugs that
// made it so.
func (c *Cacher) heed(ctx context.Context) error {
	ticker := time.NewTicker(c.cfg.ProgressInterval)
	defer ticker.Stop()
	heard, silent := c.heard.Load(), 0
	cutOff := false // it was said that the cacher does not follow
	answered := func() {
		if cutOff {
			cutOff = false
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
		if n := c.heard.Load(); n != heard {
			heard, silent = n, 0
			answered()
			continue
		}
		reached, asked := object.Revision(c.reached.Load()), time.Now()
		call, cancel := context.WithTimeout(ctx, c.cfg.ReadWait)
		now, err := c.cfg.Store.Revision(call)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case c.heard.Load() != heard: // meanwhile; the next look sees to it
		case err != nil:
			if c.following.CompareAndSwap(true, false) {
				cutOff = true
				c.log.Warn("the store does not answer", "error", err)
			}
		case now < reached:
			return errWentBack
		case now == reached:
			silent = 0
			answered()
			c.hearNothingNew(asked)
		default:
			if silent++; silent == patience {
				return errSilent
			}
		}
	}
}

// hearNothingNew notes that at the given time the store had nothing that is not in the
// state. A watch that was opened at a revision that is still to come says nothing, and
// the state is not old for that.
func (c *Cacher) hearNothingNew(at time.Time) {
	if was := c.heardAt.Load(); was < at.UnixNano() {
		c.heardAt.CompareAndSwap(was, at.UnixNano())
	}
}
