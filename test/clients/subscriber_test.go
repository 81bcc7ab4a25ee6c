package clients

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// subscriber keeps a copy of some objects with a client.
type subscriber interface {
	name() string
	run(ctx context.Context) error
	// at returns the position of the copy.
	at() client.Position
	// pending returns why the copy cannot be compared yet, or "".
	pending() string
	// compare returns how the copy differs from the objects of a List, or "".
	compare(objects map[string]*client.Object) string
	// violations returns the guarantees that the client has violated so far.
	violations() []string
	// selection returns the resource and the selections of the copy.
	selection() (resource string, selected []client.ListOption)
}

// bookmarks is short to keep the test short.
const bookmarks = 300 * time.Millisecond

// counts counts what happens to all subscribers.
type counts struct {
	mu                                         sync.Mutex
	calls, events, interruptions, replacements int // guarded by mu
	starts, epochs, drains                     int // guarded by mu
}

// interrupted counts an interruption.
func (c *counts) interrupted(why error) {
	c.add(&c.interruptions)
	if errors.Is(why, client.ErrDraining) {
		c.add(&c.drains)
	}
}

func (c *counts) add(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

// await polls a condition.
func await(ctx context.Context, ok func() bool) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
