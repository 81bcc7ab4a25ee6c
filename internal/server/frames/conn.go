package frames

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
)

// readBufferBytes is how much a connection reads ahead. It is small, because there are very
// many connections, each has this memory, and most of them send almost nothing.
const readBufferBytes = 512

// Conn is a connection that follows the frames in both directions. It reads ahead in place of
// the server, and never returns more than the frame that the server is reading. So when it
// handles the end of a frame, the server has processed all frames before it.
//
// A connection that does not begin with the preface of HTTP/2 is passed on as it is.
type Conn struct {
	net.Conn
	buffered *bufio.Reader
	budget   Budget        // nil: without limit
	closed   chan struct{} // closed when the connection is
	close    func()        // closes it, once

	notHTTP2  atomic.Bool           // the client speaks another protocol
	exhausted atomic.Pointer[error] // why the connection must be closed; nil: it need not be

	// The frame that is being read. Only the reading goroutine uses these fields.
	prefaceLeft int // bytes of the client preface that are still to come
	header      frameHeader
	headerRead  int           // bytes of header that have come
	payloadLeft int           // bytes of the payload that are still to come
	padding     int           // bytes at the end of the payload; negative: their number is in the first byte
	request     *Request      // that a DATA frame belongs to; nil: none that is followed
	endsStream  bool          // the last HEADERS frame had END_STREAM
	lastStream  uint32        // the highest stream id so far
	uncounted   int           // control frames since the last batch was counted
	unyielded   int           // frames since the last yield
	burst       burst         // of the streams that the client opens
	waited      time.Duration // how long the last stream has waited for its turn

	// They slow down a client that sends very many frames, whatever they are.
	controlFrames, settings *rate.Limiter

	mu          sync.Mutex
	streams     map[uint32]*clientStream // guarded by mu
	manyStreams int                      // guarded by mu; see openStream

	lost     atomic.Bool   // the client has gone
	answered chan struct{} // has an element for each stream that was answered since then
	outgoing outgoing

	attach   sync.Once
	attached any // see Attached
}

// NewConn returns a connection that follows the frames of conn and applies the budget to the
// client. A nil budget means no limit.
func NewConn(conn net.Conn, budget Budget) *Conn {
	c := &Conn{
		Conn: conn, buffered: bufio.NewReaderSize(conn, readBufferBytes), budget: budget, closed: make(chan struct{}),
		prefaceLeft: len(http2.ClientPreface), headerRead: frameHeaderBytes, streams: map[uint32]*clientStream{}, manyStreams: fewStreams,
		controlFrames: rate.NewLimiter(controlFrameRate, controlFrameRate), settings: rate.NewLimiter(settingsRate, settingsBurst),
		answered: make(chan struct{}, lostAtOnce),
	}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	return c
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.close()
	return c.Conn.Close()
}

// Attached returns what a package above keeps with the connection. The first call makes it. Any
// goroutine may call Attached.
func (c *Conn) Attached(first func() any) any {
	c.attach.Do(func() { c.attached = first() })
	return c.attached
}

// CloseWrite closes the connection for writing, as that of net.TCPConn does.
func (c *Conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if c.notHTTP2.Load() {
		return c.buffered.Read(b)
	}
	n, err := c.readFrames(b)
	if err != nil {
		c.endLost()
	}
	return n, err
}

func (c *Conn) readFrames(b []byte) (int, error) {
	switch {
	case c.prefaceLeft > 0:
		return c.readPreface(b)
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
		if reason := c.beginFrame(); reason != nil {
			c.calm(reason)
			return 0, reason
		}
	}
	return n, err
}

func (c *Conn) readPreface(b []byte) (int, error) {
	n, err := c.buffered.Read(b[:min(len(b), c.prefaceLeft)])
	rest := http2.ClientPreface[len(http2.ClientPreface)-c.prefaceLeft:]
	if string(b[:n]) != rest[:n] {
		c.notHTTP2.Store(true)
	}
	c.prefaceLeft -= n
	return n, err
}

// beginFrame handles the header of a frame. It returns an error if the frame must not reach the
// server.
func (c *Conn) beginFrame() error {
	c.payloadLeft = c.header.payloadBytes()
	switch c.header.kind() {
	case http2.FrameData:
		c.with(c.header.stream(), func(s *clientStream) { c.request = s.request })
		c.padding = 0
		if c.header.has(http2.FlagDataPadded) {
			c.padding = -1
		}
		if c.request == nil {
			c.countControlFrame()
		}
	case http2.FrameHeaders:
		c.endsStream = c.header.has(http2.FlagHeadersEndStream)
		if id := c.header.stream(); id > c.lastStream {
			c.openStream(id)
		} else {
			c.countControlFrame()
		}
	case http2.FrameSettings:
		return c.countSettings(c.payloadLeft / settingBytes)
	default:
		c.countControlFrame()
	}
	return nil
}

// readPayload handles bytes of the payload of a frame.
func (c *Conn) readPayload(b []byte) {
	c.payloadLeft -= len(b)
	if c.header.kind() != http2.FrameData || c.request == nil || len(b) == 0 {
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
	c.endViolator(c.request)
}

// endFrame is called when the server has processed a frame and asks for the next one.
func (c *Conn) endFrame() {
	c.headerRead = 0
	request := c.request
	c.request = nil
	switch kind := c.header.kind(); {
	case kind == http2.FrameRSTStream:
		// Now the server has ended the request, so it does no work for it, even if the
		// connection must be closed.
		c.abandon(c.header.stream())
		c.yield()
	case kind == http2.FrameData && request != nil:
		end := c.header.has(http2.FlagDataEndStream)
		if end {
			c.with(c.header.stream(), func(s *clientStream) { s.request = nil })
		}
		request.endFrame(end)
		c.endViolator(request)
		c.yield()
	}
}
