package frames

import (
	"bytes"
	"io"
	"time"

	"golang.org/x/net/http2"
)

const (
	// calmTime is how long a connection that is over its budget stays open, so that the
	// client can read why it ends.
	calmTime = 250 * time.Millisecond

	// calmBytes is how much the server reads meanwhile. A connection that is closed with
	// unread bytes is reset, and the client may lose what it has not read by then.
	calmBytes = 64 << 10
)

// calm tells the client with ENHANCE_YOUR_CALM why the connection is closed, and waits until
// the client has had time to read that. Only the reading goroutine calls it.
func (c *Conn) calm(reason error) {
	var frame bytes.Buffer
	if err := http2.NewFramer(&frame, nil).WriteGoAway(c.lastStream, http2.ErrCodeEnhanceYourCalm, []byte(reason.Error())); err != nil {
		return // cannot happen: a buffer accepts everything
	}
	// Writes that are stuck end, too. An error means that the connection is closed.
	if err := c.Conn.SetDeadline(time.Now().Add(calmTime)); err != nil {
		return
	}
	timer := time.NewTimer(calmTime)
	defer timer.Stop()
	select {
	case <-c.writeLast(frame.Bytes()):
	case <-timer.C:
		return
	case <-c.closed:
		return
	}
	_ = c.CloseWrite() // the connection is closed soon
	if _, err := io.CopyN(io.Discard, c.buffered, calmBytes); err != nil {
		return // the client has gone, or the time is over
	}
	select {
	case <-timer.C:
	case <-c.closed:
	}
}

// writeLast writes a GOAWAY as soon as the frame that is being written is complete. The result
// is closed when that has happened.
func (c *Conn) writeLast(frame []byte) (written <-chan struct{}) {
	o := &c.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.lastWritten, o.goAway = frame, make(chan struct{}), true
	written = o.lastWritten
	if o.betweenFrames() {
		c.writeLastLocked()
	}
	return written
}

// writeLastLocked writes nothing if the server has sent a GOAWAY: that may have named a lower
// stream, and a later one must not name a higher one.
func (c *Conn) writeLastLocked() {
	o := &c.outgoing
	if !o.serverGoAway {
		_, _ = c.Conn.Write(o.last) // the connection is closed soon
	}
	o.last = nil
	close(o.lastWritten)
}
