package robustness

import (
	"context"
	"sync"
)

// ledger counts operations. It is the clock of the fault injector and of resting
// watchers: they wait until the clients have made a number of calls.
type ledger struct {
	mu       sync.Mutex
	answered int
	unknown  int
	closed   bool
	grown    chan struct{} // closed and replaced when something changes
}

func newLedger() *ledger { return &ledger{grown: make(chan struct{})} }

// add counts an operation; known says whether it was answered.
func (l *ledger) add(known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known {
		l.answered++
	} else {
		l.unknown++
	}
	l.wake()
}

// close announces that no operations follow.
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

// counts returns the number of answered operations and of those with an unknown outcome.
func (l *ledger) counts() (answered, unknown int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered, l.unknown
}

// pass waits for n more answered operations, or for close.
func (l *ledger) pass(ctx context.Context, n int) error {
	answered, _ := l.counts()
	for {
		l.mu.Lock()
		done, grown := l.closed || l.answered >= answered+n, l.grown
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
