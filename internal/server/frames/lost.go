package frames

import (
	"slices"
	"time"
)

const (
	// lostAtOnce is how many streams of a lost connection end at the same time.
	lostAtOnce = 16

	// lostPatience is how long the next streams wait for these. A handler may be busy for a
	// long time, and some streams have none.
	lostPatience = 5 * time.Millisecond
)

// endLost ends the streams that are served, a few at a time. gRPC would end all of them at once, and the
// work for live events would queue behind ten thousand handlers. The reading goroutine calls endLost
// before gRPC learns that the connection is lost.
func (c *Conn) endLost() {
	var served []Stream
	c.mu.Lock()
	for _, s := range c.streams {
		if s.served != nil {
			served = append(served, s.served)
		}
	}
	c.mu.Unlock()
	c.lost.Store(true)
	for batch := range slices.Chunk(served, lostAtOnce) {
		for _, s := range batch {
			s.Lost()
		}
		if !c.awaitAnswers(len(batch)) {
			return
		}
	}
}

// awaitAnswers waits until so many streams were answered, or some time has passed. It returns false
// if the connection is closed.
func (c *Conn) awaitAnswers(n int) bool {
	timer := time.NewTimer(lostPatience)
	defer timer.Stop()
	for range n {
		select {
		case <-c.answered:
		case <-timer.C:
			return true
		case <-c.closed:
			return false
		}
	}
	return true
}

// Answered notes that the server has answered a request. Any goroutine may call it.
func (c *Conn) Answered() {
	if !c.lost.Load() {
		return
	}
	select {
	case c.answered <- struct{}{}:
	default: // enough were answered
	}
}
