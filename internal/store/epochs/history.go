package epochs

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// History is one sequence of revisions, as far as this process has seen it. It ends
// when etcd turns out to have gone back. Nothing learned from one history is valid in
// the next.
type History struct {
	highest    atomic.Int64 // highest revision that etcd was seen to have
	rolledBack atomic.Bool  // etcd was seen below highest

	ended   chan struct{} // closed by end
	endOnce sync.Once
}

func newHistory() *History { return &History{ended: make(chan struct{})} }

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

// end ends the history and all its watches.
func (h *History) end() { h.endOnce.Do(func() { close(h.ended) }) }

// Ended returns a channel that is closed when the history ends.
func (h *History) Ended() <-chan struct{} { return h.ended }

// HasEnded reports whether the history has ended.
func (h *History) HasEnded() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// ErrEnded ends a watch whose next change would belong to another history.
var ErrEnded = fmt.Errorf("%w: etcd has another history than when the watch began", object.ErrUnavailable)
