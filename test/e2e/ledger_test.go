package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// ledger has the acknowledged writes. The number of changes is the clock of the tests:
// an actor that waits, waits for changes.
type ledger struct {
	mu       sync.Mutex
	entries  []entry
	writes   []check.Acknowledged // oldest first
	revision object.Revision      // the newest
	closed   bool
	grown    chan struct{} // closed and replaced when something changes
}

// entry is an acknowledged change.
type entry struct {
	key      object.Key
	revision object.Revision
}

// writing is a write in progress.
type writing struct {
	ledger *ledger
	begun  time.Time
}

// begin starts a write.
func (l *ledger) begin() writing { return writing{l, time.Now()} }

func newLedger() *ledger { return &ledger{grown: make(chan struct{})} }

// acknowledged records the changes of a write.
func (w writing) acknowledged(revision int64, keys ...object.Key) {
	l := w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(keys) > 0 {
		l.writes = append(l.writes, check.Acknowledged{Begun: w.begun, At: time.Now(), Revision: object.Revision(revision)})
	}
	for _, key := range keys {
		l.entries = append(l.entries, entry{key, object.Revision(revision)})
	}
	l.revision = max(l.revision, object.Revision(revision))
	l.wake()
}

// close announces that no writes follow.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

func (l *ledger) wake() {
	close(l.grown)
	l.grown = make(chan struct{})
}

// len returns the number of acknowledged changes.
func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// newest returns the newest acknowledged revision.
func (l *ledger) newest() object.Revision {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision
}

// acknowledgements returns the writes to the resource, oldest first.
func (l *ledger) acknowledgements() []check.Acknowledged {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.writes)
}

// recent returns a recently acknowledged revision of the resource, or the newest if back
// is 0. It returns false if there is none.
func (l *ledger) recent(back int) (object.Revision, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return 0, false
	}
	return l.entries[max(0, len(l.entries)-1-back)].revision, true
}

// wait waits for n acknowledged changes, or for close.
func (l *ledger) wait(ctx context.Context, n int) error {
	for {
		l.mu.Lock()
		done, grown := l.closed || len(l.entries) >= n, l.grown
		l.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// survived returns an error if an acknowledged change is missing in etcd's history.
func (l *ledger) survived(truth *check.Truth) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if !truth.Has(e.key, e.revision) {
			return fmt.Errorf("the change of %q at revision %d was acknowledged, but is not in the history of etcd", e.key, e.revision)
		}
	}
	return nil
}
