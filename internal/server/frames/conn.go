package frames

import (
	"bufio"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
)

// readBufferBytes is how much a connection reads ahead. It is small, because there are very
// many connections, each has this memory, and most of them send almost nothing.
const readBufferBytes = 512

// The shape of a frame (RFC 9113, section 4.1).
const (
	frameHeaderBytes = 9
	streamIDMask     = 1<<31 - 1
)

// Conn is a connection that follows the frames of its client. It reads ahead in place of
// gRPC, and never returns more than the frame that gRPC is reading. So when it handles the
// end of a frame, gRPC has processed all frames before it. It also follows the frames that gRPC
// writes, to send a GOAWAY between two of them.
type Conn struct {
	net.Conn
	buffered        *bufio.Reader
	budget          Budget        // nil: without limit
	followsRequests bool          // see Options
	closed          chan struct{} // closed when the connection is
	close           func()        // closes it, once

	exhausted atomic.Pointer[error] // why the connection must be closed; nil: it need not be

	// The frame that is being read. Only the reading goroutine uses these fields.
	prefaceLeft int // bytes of the client preface that are still to come
	header      [frameHeaderBytes]byte
	headerRead  int      // bytes of header that have come
	payloadLeft int      // bytes of the payload that are still to come
	padding     int      // bytes at the end of the payload; negative: the first byte says how many
	request     *Request // that a DATA frame belongs to; nil: none that is followed
	endsStream  bool     // the last HEADERS frame had END_STREAM

	lastStream    uint32 // the highest stream id so far
	control       *rate.Limiter
	controlFrames int

	mu      sync.Mutex
	streams map[uint32]*Request // guarded by mu; requests that have not come to their end
	open    map[uint32]Stream   // guarded by mu; streams that have not ended
	recent  recentStreams       // guarded by mu

	lost     lostStreams
	outgoing outgoing
}

// Options configure a [Conn].
type Options struct {
	// Budget limits the streams of the client. Nil: no limit.
	Budget Budget

	// FollowRequests says that the server calls Open for each request, and end when the
	// stream has ended. Otherwise a stream counts as abandoned when its client resets it.
	FollowRequests bool

	// PrefaceRead says that the server has read the client preface.
	PrefaceRead bool
}

// NewConn returns a connection that follows the frames of conn.
func NewConn(conn net.Conn, o Options) *Conn {
	c := &Conn{
		Conn: conn, buffered: bufio.NewReaderSize(conn, readBufferBytes), prefaceLeft: len(http2.ClientPreface),
		headerRead: frameHeaderBytes, streams: map[uint32]*Request{}, open: map[uint32]Stream{},
		lost:   lostStreams{answered: make(chan struct{}, lostAtOnce)},
		budget: o.Budget, followsRequests: o.FollowRequests,
		closed: make(chan struct{}), control: newControlFrameLimiter(),
	}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	if o.PrefaceRead {
		c.prefaceLeft = 0
	}
	return c
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.close()
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.read(b)
	if err != nil {
		c.endLost()
	}
	return n, err
}

func (c *Conn) read(b []byte) (int, error) {
	switch {
	case c.prefaceLeft > 0:
		n, err := c.buffered.Read(b[:min(len(b), c.prefaceLeft)])
		c.prefaceLeft -= n
		return n, err
	case c.payloadLeft > 0:
		n, err := c.buffered.Read(b[:min(len(b), c.payloadLeft)])
		c.readPayload(b[:n])
		return n, err
	case c.headerRead == frameHeaderBytes:
		c.endFrame()
	}
	n, err := c.buffered.Read(b[:min(len(b), frameHeaderBytes-c.headerRead)])
	copy(c.header[c.headerRead:], b[:n])
	if reason := c.exhausted.Load(); reason != nil {
		c.calm(*reason)
		return 0, *reason
	}
	if c.headerRead += n; c.headerRead == frameHeaderBytes {
		c.beginFrame()
	}
	return n, err
}

func (c *Conn) frameType() http2.FrameType { return http2.FrameType(c.header[3]) }

func (c *Conn) hasFlag(flag http2.Flags) bool { return http2.Flags(c.header[4]).Has(flag) }

func (c *Conn) streamID() uint32 { return binary.BigEndian.Uint32(c.header[5:]) & streamIDMask }

// payloadBytes returns the size of the payload of a frame.
func payloadBytes(header *[frameHeaderBytes]byte) int {
	return int(header[0])<<16 | int(header[1])<<8 | int(header[2])
}

// beginFrame handles the header of a frame.
func (c *Conn) beginFrame() {
	c.payloadLeft = payloadBytes(&c.header)
	switch c.frameType() {
	case http2.FrameData:
		c.mu.Lock()
		c.request = c.streams[c.streamID()]
		c.mu.Unlock()
		c.padding = 0
		if c.hasFlag(http2.FlagDataPadded) {
			c.padding = -1
		}
		if c.request == nil {
			c.countControlFrame()
		}
	case http2.FrameHeaders:
		c.endsStream = c.hasFlag(http2.FlagHeadersEndStream)
		if id := c.streamID(); id > c.lastStream {
			c.openStream(id)
		}
	default:
		c.countControlFrame()
	}
}

// readPayload handles bytes of the payload of a frame.
func (c *Conn) readPayload(b []byte) {
	c.payloadLeft -= len(b)
	if c.frameType() != http2.FrameData || c.request == nil || len(b) == 0 {
		return
	}
	if c.padding < 0 {
		c.padding = int(b[0])
		b = b[1:]
	}
	if padding := c.padding - c.payloadLeft; padding > 0 {
		b = b[:max(len(b)-padding, 0)]
	}
	c.request.addData(b)
}

// endFrame is called when gRPC has processed a frame and asks for the next one.
func (c *Conn) endFrame() {
	c.headerRead = 0
	request := c.request
	c.request = nil
	switch {
	case c.frameType() == http2.FrameRSTStream:
		// Now the server has ended the request, so it does no work for it, even if the
		// connection must be closed.
		if !c.followsRequests {
			c.abandon(c.streamID(), "")
		}
		c.forget(c.streamID())
		c.yield()
	case c.frameType() == http2.FrameHeaders:
		c.yield()
	case c.frameType() == http2.FrameData && request != nil:
		end := c.hasFlag(http2.FlagDataEndStream)
		if end {
			c.forget(c.streamID())
		}
		request.endFrame(end)
		c.yield()
	}
}

// Open begins to follow the request whose headers gRPC has just read. endStream ends its
// stream when the client violates a rule; it must not block. The goroutine that reads the
// connection calls Open. The caller calls Ended with the id of the stream.
func (c *Conn) Open(stream Stream, endStream func()) (request *Request, id uint32) {
	request, id = &Request{endStream: endStream, ended: c.endsStream}, c.streamID()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[id] = request
	c.open[id] = stream
	return request, id
}

// Ended notes that a stream has ended. abandoned says that this happened before the server
// answered the request, and client is the name of the client if it has authenticated. Any
// goroutine may call it.
func (c *Conn) Ended(id uint32, abandoned bool, client string) {
	c.mu.Lock()
	delete(c.streams, id)
	delete(c.open, id)
	c.mu.Unlock()
	if abandoned {
		c.abandon(id, client)
	}
}

func (c *Conn) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, id)
}
