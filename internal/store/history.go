package store

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// history is one sequence of revisions, as far as this process has seen it. It ends
// when etcd turns out to have gone back. Nothing learned from one history is valid in
// the next.
type history struct {
	highest    atomic.Int64 // highest revision that etcd was seen to have
	rolledBack atomic.Bool  // etcd was seen below highest

	ended   chan struct{} // closed by end
	endOnce sync.Once
}

func newHistory() *history { return &history{ended: make(chan struct{})} }

// advance records that etcd has, or has had, a revision.
func (h *history) advance(r object.Revision) {
	for {
		highest := h.highest.Load()
		if int64(r) <= highest || h.highest.CompareAndSwap(highest, int64(r)) {
			return
		}
	}
}

// check records that a linearizable read found etcd at revision r. Before is the
// highest revision known before the read began. If r is lower, etcd has gone back:
// check ends the history and returns an error.
func (h *history) check(r object.Revision, before int64) error {
	if int64(r) >= before {
		h.advance(r)
		return nil
	}
	h.rolledBack.Store(true)
	h.end()
	return fmt.Errorf("%w: etcd has gone back from revision %d to %d", object.ErrUnavailable, before, r)
}

// end ends the history and all its streams.
func (h *history) end() { h.endOnce.Do(func() { close(h.ended) }) }

func (h *history) hasEnded() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// errHistoryEnded ends a stream whose next change would belong to another history.
var errHistoryEnded = fmt.Errorf("%w: etcd has another history than when the watch began", object.ErrUnavailable)
