package frames

import (
	"runtime"
	"time"

	"golang.org/x/time/rate"
)

// Budget limits the streams that the client of one connection opens and abandons. Any
// goroutine may call it.
type Budget interface {
	// OpenStream counts a stream that the client opens. The server reads the stream only
	// after the wait.
	OpenStream() (wait time.Duration)

	// AbandonStream counts a stream that the client gave up soon after it had opened it.
	// client is the name of the client that has authenticated on the stream, or empty. An
	// error means that the budget is used up: the connection must be closed.
	AbandonStream(client string) error
}

const (
	// controlFrameRate is how many frames per second a connection may send that neither open
	// a stream nor belong to a request, such as WINDOW_UPDATE. The server reads further ones
	// later.
	controlFrameRate = 20_000

	// controlFrameBatch is how many of these frames are counted at once.
	controlFrameBatch = 64
)

func newControlFrameLimiter() *rate.Limiter {
	return rate.NewLimiter(controlFrameRate, controlFrameRate)
}

// openStream applies the budget to a stream whose header has come.
func (c *Conn) openStream(id uint32) {
	c.lastStream = id
	if c.budget == nil {
		return
	}
	c.mu.Lock()
	c.recent.open(id, time.Now())
	c.mu.Unlock()
	c.pause(c.budget.OpenStream())
}

// countControlFrame slows down a client that sends very many frames.
func (c *Conn) countControlFrame() {
	if c.controlFrames++; c.controlFrames%controlFrameBatch != 0 {
		return
	}
	c.yield()
	if c.budget != nil {
		c.pause(c.control.ReserveN(time.Now(), controlFrameBatch).Delay())
	}
}

// yield lets the handlers run that the last frame has started or woken, if the client has
// sent more already. Otherwise a client that sends without a pause would start thousands of
// handlers, and the work for live events would queue behind all of them.
func (c *Conn) yield() {
	if c.buffered.Buffered() > 0 {
		runtime.Gosched()
	}
}

// pause waits, unless the connection is closed.
func (c *Conn) pause(wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closed:
	}
}

// abandon counts a stream that the client gave up, unless the stream is old. The streams of a
// connection that is lost or closed do not count: the client may have been killed.
func (c *Conn) abandon(id uint32, client string) {
	if c.budget == nil || c.lost.begun.Load() || c.isClosed() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exhausted.Load() != nil || !c.recent.has(id, time.Now()) {
		return
	}
	if err := c.budget.AbandonStream(client); err != nil {
		c.exhausted.Store(&err)
	}
}

func (c *Conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}
