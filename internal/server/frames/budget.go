package frames

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/net/http2"
)

// Budget limits how the client of one connection opens streams, and how many it abandons. Any
// goroutine may call it.
type Budget interface {
	// AwaitTurn waits until the server may begin a burst of streams of the client, or closed is
	// closed. It returns how long that took, or 0 if the client need not know.
	AwaitTurn(closed <-chan struct{}) (waited time.Duration)

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

	// settingsRate is how many settings per second a connection may change, and
	// settingsBurst how many at once. gRPC looks at all streams of the connection for each
	// change of the initial window. Clients send few settings at the beginning, and some
	// change their window a few times as they measure the network.
	settingsRate  = 2
	settingsBurst = 64

	// maxSettings is how many settings a frame may have. HTTP/2 defines fewer than ten.
	maxSettings = 32

	settingBytes = 6
)

var errManySettings = errors.New("a SETTINGS frame has too many settings")

// countControlFrame slows down a client that sends very many frames.
func (c *Conn) countControlFrame() {
	if c.uncounted++; c.uncounted < controlFrameBatch {
		return
	}
	c.uncounted = 0
	c.yield()
	if c.budget != nil {
		Pause(c.controlFrames.ReserveN(time.Now(), controlFrameBatch).Delay(), c.closed)
	}
}

// countSettings slows down a client that changes its settings very often. It returns an error
// if a frame has too many.
func (c *Conn) countSettings(count int) error {
	c.countControlFrame()
	switch {
	case c.budget == nil:
	case count > maxSettings:
		return errManySettings
	default:
		Pause(c.settings.ReserveN(time.Now(), count).Delay(), c.closed)
	}
	return nil
}

// yield lets the handlers run that the last framesPerYield frames have woken or ended, if the client
// has sent more already. Otherwise a client that sends without a pause would wake thousands of
// handlers, and the work for live events would queue behind all of them. Bursts do the same for
// streams that begin.
func (c *Conn) yield() {
	if c.unyielded++; c.unyielded < framesPerYield || c.buffered.Buffered() == 0 {
		return
	}
	c.unyielded = 0
	runtime.Gosched()
}

// framesPerYield is the number of frames that wake or end a handler between two yields.
const framesPerYield = 32

// Pause waits, unless closed is closed, which usually happens with a connection.
func Pause(wait time.Duration, closed <-chan struct{}) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closed:
	}
}

// youngFor is how long a stream is young. A client may reset older streams as it likes, for
// example thousands of watches at once, or requests whose deadline has passed.
const youngFor = 100 * time.Millisecond

// serverReset notes that the server has reset a stream. The client can provoke that instead of
// resetting the stream itself: it violates HTTP/2, or sets a deadline that passes at once.
func (c *Conn) serverReset(id uint32, code http2.ErrCode) {
	switch code {
	case http2.ErrCodeNo, http2.ErrCodeInternal, http2.ErrCodeRefusedStream:
		c.closeStream(id) // the client is not to blame
	default:
		c.abandon(id)
	}
}

// abandon notes that a stream was reset, and counts it if it is young and the server has not answered
// it. Streams of a lost connection do not count: the client may have been killed.
func (c *Conn) abandon(id uint32) {
	if client, opened, ok := c.closeStream(id); ok && !c.lost.Load() {
		c.AbandonWatch(client, time.Since(opened))
	}
}

// AbandonWatch counts a watch that the client has stopped at the given age, like a stream that
// it abandons, if the watch was young. client is the name of the client that has
// authenticated, or empty. Any goroutine may call it. If the budget is used up, the connection
// is closed with the next frame of the client.
func (c *Conn) AbandonWatch(client string, age time.Duration) {
	if c.budget == nil || age >= youngFor || c.exhausted.Load() != nil {
		return
	}
	if err := c.budget.AbandonStream(client); err != nil {
		c.exhausted.CompareAndSwap(nil, &err)
	}
}
