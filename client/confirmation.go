package client

import (
	"context"
	"sync"
	"time"
)

// confirmation proves that a state is fresh: at this position or later, it has every write that
// was acknowledged before a time.
type confirmation struct {
	at   Position
	asOf time.Time
}

// provesFresh reports whether the confirmation holds for a state at a position.
func (c confirmation) provesFresh(at Position) bool {
	return c.at.Revision > 0 && c.at.Epoch == at.Epoch && c.at.Revision <= at.Revision
}

// confirmer confirms the state of an informer that has joined a shared watch. The watch began
// before the informer, so until its next bookmark nothing would prove that its state is fresh.
type confirmer struct {
	needed bool
	watch  *watcher
	result chan confirmation // delivers at most once
	cancel context.CancelFunc
	ctx    context.Context
	runs   sync.WaitGroup
}

// newConfirmer returns a confirmer. If it is not needed, it does nothing. The caller must stop it.
func newConfirmer(ctx context.Context, needed bool, w *watcher) *confirmer {
	c := &confirmer{needed: needed, watch: w, result: make(chan confirmation, 1)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// start begins to confirm a state at a position. Only the first call has an effect.
func (c *confirmer) start(at Position) {
	if !c.needed {
		return
	}
	c.needed = false
	c.runs.Go(func() {
		if found, ok := c.watch.confirm(c.ctx, at); ok {
			c.result <- found
		}
	})
}

func (c *confirmer) stop() {
	c.cancel()
	c.runs.Wait()
}

// confirm finds out what a state at a position lacks of the present one. It watches after the
// position until the server has confirmed its own state with etcd. It returns false if ctx ends
// first, or if the server refuses the watch.
func (w *watcher) confirm(ctx context.Context, at Position) (c confirmation, ok bool) {
	c.at, c.asOf = at, time.Now()
	w.at, w.onInterruption = at, nil
	_ = w.run(ctx, func(u *Update) bool {
		if len(u.Events) > 0 || u.Phase == PhaseReset || c.at.Revision == 0 {
			c.at = u.Position
		}
		ok = u.Phase.Complete() && !u.AsOf.Before(c.asOf)
		return !ok
	})
	return c, ok
}
