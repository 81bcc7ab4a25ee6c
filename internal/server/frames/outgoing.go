package frames

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
)

// outgoing follows the frames that the server writes. The server may write a frame in pieces.
type outgoing struct {
	goAwayDue atomic.Bool // GOAWAY is to be written

	mu           sync.Mutex    // held while a write is under way
	goAway       bool          // guarded by mu: a GOAWAY was written, ours or one of the server
	serverGoAway bool          // guarded by mu: the server has written one
	header       frameHeader   // guarded by mu
	headerRead   int           // guarded by mu: bytes of header that were written
	payloadLeft  int           // guarded by mu: bytes of the payload that are still to be written
	last         []byte        // guarded by mu: see Conn.writeLast; nil: none
	lastWritten  chan struct{} // guarded by mu: closed when last is written
}

// goAwayFrame is how HTTP/2 begins to end a connection gracefully (RFC 9113, section 6.8): no
// error, and the highest stream id. So streams that have begun, or are on their way, continue.
var goAwayFrame = func() []byte {
	frame := []byte{0, 0, 8, byte(http2.FrameGoAway), 0, 0, 0, 0, 0}
	frame = binary.BigEndian.AppendUint32(frame, streamIDMask)
	return binary.BigEndian.AppendUint32(frame, uint32(http2.ErrCodeNo))
}()

// GoAway makes the next write begin with a GOAWAY. It does not wait for that write. The client
// makes its further requests on another connection. Requests in progress continue. GoAway has
// no effect if the server itself has sent a GOAWAY, because the second one of gRPC names the
// last stream that it accepts, and a later GOAWAY must not name a higher one.
//
// Any goroutine may call GoAway, but only after the client has sent a request.
func (c *Conn) GoAway() { c.outgoing.goAwayDue.Store(true) }

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if c.notHTTP2.Load() {
		return c.Conn.Write(b)
	}
	o := &c.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.goAwayDue.Load() && !o.goAway && o.betweenFrames() {
		if _, err := c.Conn.Write(goAwayFrame); err != nil {
			return 0, err
		}
		o.goAway = true
	}
	n, err := c.Conn.Write(b)
	c.follow(b[:n])
	if o.last != nil && o.betweenFrames() {
		c.writeLastLocked()
	}
	return n, err
}

// betweenFrames reports, with mu held, whether the last frame was written to its end.
func (o *outgoing) betweenFrames() bool { return o.payloadLeft == 0 && o.headerRead == 0 }

// follow handles bytes that were written. It is called with outgoing.mu held.
func (c *Conn) follow(b []byte) {
	o := &c.outgoing
	for len(b) > 0 {
		switch {
		case o.payloadLeft > 0:
			n := min(o.payloadLeft, len(b))
			if o.payloadLeft -= n; o.payloadLeft == 0 && o.header.kind() == http2.FrameRSTStream {
				c.serverReset(o.header.stream(), http2.ErrCode(b[n-1])) // all codes fit into the last of the four bytes
			}
			b = b[n:]
		case o.headerRead == 0 && len(b) >= frameHeaderBytes: // almost always
			o.header = frameHeader(b[:frameHeaderBytes])
			b = b[frameHeaderBytes:]
			c.followHeader()
		default:
			n := copy(o.header[o.headerRead:], b)
			b = b[n:]
			if o.headerRead += n; o.headerRead == frameHeaderBytes {
				o.headerRead = 0
				c.followHeader()
			}
		}
	}
}

// followHeader handles the header of a frame. It is called with outgoing.mu held.
func (c *Conn) followHeader() {
	o := &c.outgoing
	o.payloadLeft = o.header.payloadBytes()
	switch {
	case o.header.endsStream():
		c.closeStream(o.header.stream())
	case o.header.kind() == http2.FrameGoAway:
		o.goAway, o.serverGoAway = true, true
	}
}
