package frames

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
)

// goAwayFrame is how HTTP/2 begins to end a connection gracefully (RFC 9113, section 6.8): no
// error, and the highest stream id. So streams that have begun, or are on their way, continue.
var goAwayFrame = func() []byte {
	frame := []byte{0, 0, 8, byte(http2.FrameGoAway), 0, 0, 0, 0, 0}
	frame = binary.BigEndian.AppendUint32(frame, streamIDMask)
	return binary.BigEndian.AppendUint32(frame, uint32(http2.ErrCodeNo))
}()

// outgoing follows the frames that gRPC writes.
type outgoing struct {
	due atomic.Bool // GOAWAY is to be written

	mu          sync.Mutex // held while a write is under way
	sent        bool       // guarded by mu: a GOAWAY was written, ours or one of gRPC
	header      [frameHeaderBytes]byte
	headerRead  int           // guarded by mu: bytes of header that were written
	payloadLeft int           // guarded by mu: bytes of the payload that are still to be written
	last        []byte        // guarded by mu: see Conn.writeLast; nil: none
	lastWritten chan struct{} // guarded by mu: closed when last is written
}

// GoAway makes the next write begin with a GOAWAY. It does not wait for that write. The client
// makes its further requests on another connection. Requests in progress continue. GoAway has
// no effect if gRPC has sent a GOAWAY, because its second one names the last stream that it
// accepts, and a later GOAWAY must not name a higher one.
//
// Any goroutine may call GoAway, but only after the client has sent a request.
func (c *Conn) GoAway() { c.outgoing.due.Store(true) }

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	o := &c.outgoing
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.due.Load() && !o.sent && o.betweenFrames() {
		if _, err := c.Conn.Write(goAwayFrame); err != nil {
			return 0, err
		}
		o.sent = true
	}
	n, err := c.Conn.Write(b)
	o.follow(b[:n])
	if o.last != nil && o.betweenFrames() {
		c.writeLastLocked()
	}
	return n, err
}

// betweenFrames reports, with mu held, whether the last frame was written to its end. gRPC also writes when
// its buffer is full, and then a frame may continue in the next write.
func (o *outgoing) betweenFrames() bool { return o.payloadLeft == 0 && o.headerRead == 0 }

// follow handles bytes that were written. It is called with mu held.
func (o *outgoing) follow(b []byte) {
	for len(b) > 0 {
		if o.payloadLeft > 0 {
			n := min(o.payloadLeft, len(b))
			o.payloadLeft -= n
			b = b[n:]
			continue
		}
		n := copy(o.header[o.headerRead:], b)
		b = b[n:]
		if o.headerRead += n; o.headerRead < frameHeaderBytes {
			return
		}
		o.headerRead = 0
		o.payloadLeft = payloadBytes(&o.header)
		o.sent = o.sent || http2.FrameType(o.header[3]) == http2.FrameGoAway
	}
}
