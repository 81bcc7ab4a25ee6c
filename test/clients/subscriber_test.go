package clients

import (
	"context"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// subscriber is somebody who has a copy of some objects.
type subscriber interface {
	name() string
	run(ctx context.Context) error
	// at returns the position of the copy.
	at() client.Position
	// behind returns what is still to happen before the copy can be judged.
	behind() string
	// compare returns how the copy differs from the objects there are.
	compare(objects map[string]*client.Object) string
	// illegal returns what was wrong with what it was told so far.
	illegal() []string
	// selection returns which objects of which resource they are.
	selection() (resource string, selected []client.ListOption)
}

// bookmarks is short, so that the test is.
const bookmarks = 300 * time.Millisecond

// counts are of all subscribers.
type counts struct {
	mu                                    sync.Mutex
	told, events, interruptions, replaced int // guarded by mu
	lives, epochs                         int // guarded by mu
}

func (c *counts) add(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}
