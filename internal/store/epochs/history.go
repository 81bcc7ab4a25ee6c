package epochs

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// History is one sequence of revisions, as far as this process has seen it. It ends
// when etcd turns out to have gone back. Nothing learned from one history is valid in
// the next.
type History struct {
	highest    atomic.Int64 // highest revision that etcd was seen to have
	rolledBack atomic.Bool  // etcd was seen below highest

	ended context.Context
	end   context.CancelFunc // ends the history and all its watches
}

func newHistory() *History {
	h := &History{}
	h.ended, h.end = context.WithCancel(context.Background())
	return h
}

// Advance records that etcd has, or has had, a revision.
func (h *History) Advance(r object.Revision) {
	for {
		highest := h.highest.Load()
		if int64(r) <= highest || h.highest.CompareAndSwap(highest, int64(r)) {
			return
		}
	}
}

// Highest returns the highest revision that etcd was seen to have.
func (h *History) Highest() int64 { return h.highest.Load() }

// Check records that a linearizable read found etcd at revision r. Before is the
// highest revision known before the read began. If r is lower, etcd has gone back:
// Check ends the history and returns an error.
func (h *History) Check(r object.Revision, before int64) error {
	if int64(r) >= before {
		h.Advance(r)
		return nil
	}
	h.rolledBack.Store(true)
	h.end()
	return fmt.Errorf("%w: etcd has gone back from revision %d to %d", object.ErrUnavailable, before, r)
}

// Ended returns a channel that is closed when the history ends.
func (h *History) Ended() <-chan struct{} { return h.ended.Done() }

// HasEnded reports whether the history has ended.
func (h *History) HasEnded() bool { return h.ended.Err() != nil }

// ErrEnded ends a watch whose next change would belong to another history.
var ErrEnded = fmt.Errorf("%w: etcd has another history than when the watch began", object.ErrUnavailable)
