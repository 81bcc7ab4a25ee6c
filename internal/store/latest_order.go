package store

import (
	"sync"

	"github.com/fanoutd/fanoutd/internal/store/epochs"
)

// latestOrder remembers the latest order of a history that this server has made, if that is ahead of etcd's
// revisions. Each write advances both by one, so they stay as far apart: without it, etcd would refuse the first
// attempt of every write.
type latestOrder struct {
	mu sync.Mutex
	// seen is the revision that the order was made from, while epoch lasts. Guarded by mu.
	seen  int64
	epoch *epochs.History
}

// after returns the revision to make the next order from.
func (l *latestOrder) after(epoch *epochs.History) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch != epoch {
		return epoch.Highest()
	}
	return max(epoch.Highest(), l.seen+1)
}

// note takes note of an order that was made from seen, for a write that has a revision.
func (l *latestOrder) note(epoch *epochs.History, seen, revision int64) {
	if seen < revision {
		return // the next order is made from this revision or a later one anyway
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch != epoch {
		l.epoch, l.seen = epoch, 0
	}
	l.seen = max(l.seen, seen)
}
