package store

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// history is one course of revisions, as far as this process has seen it. When
// etcd turns out to have gone back, it has another history from there on, and
// nothing that was learnt in the old one is worth anything.
type history struct {
	newest atomic.Int64 // the highest revision that etcd was seen to have
	undone atomic.Bool  // etcd was seen below newest

	over chan struct{} // closed when etcd has another history
	end  sync.Once
}

func newHistory() *history { return &history{over: make(chan struct{})} }

// note says that etcd has, or has had, the revision.
func (h *history) note(r object.Revision) {
	for {
		newest := h.newest.Load()
		if int64(r) <= newest || h.newest.CompareAndSwap(newest, int64(r)) {
			return
		}
	}
}

// check says that a linearizable read found etcd at the revision r. It returns an
// error if etcd had been further when that read began. Then the history is over:
// its streams end, and their readers ask for the epoch.
func (h *history) check(r object.Revision, seen int64) error {
	if int64(r) >= seen {
		h.note(r)
		return nil
	}
	h.undone.Store(true)
	h.finish()
	return fmt.Errorf("%w: etcd has gone back from revision %d to %d", object.ErrUnavailable, seen, r)
}

// finish ends all streams of the history.
func (h *history) finish() { h.end.Do(func() { close(h.over) }) }

func (h *history) isOver() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// errHistoryOver ends streams: what they would deliver next belongs to another
// history.
var errHistoryOver = fmt.Errorf("%w: etcd has another history than when the watch began", object.ErrUnavailable)
