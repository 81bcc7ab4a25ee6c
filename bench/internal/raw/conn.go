package raw

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// window is the flow-control window of streams and connections: the largest that
	// HTTP/2 allows.
	window = 1<<31 - 1
	// updateAfter is the number of received bytes after which a stream or a connection gets
	// a window update.
	updateAfter = 1 << 29
	// defaultRoom is the window of streams and connections unless the server says otherwise.
	defaultRoom = 65535
	// maxFrame is the largest frame unless a side says otherwise, and this client does not listen.
	maxFrame = 16 << 10
)

// Receive handles a message of a stream. Streams are numbered from 0, in the order
// of their Open calls. The time is that of the read, from stamp.Now. Receive must not keep the
// message.
type Receive func(stream int, message []byte, at int64) error

// Conn is a connection with streams. Only one goroutine at a time may call its methods,
// except for Close, which any goroutine may call at any time.
type Conn struct {
	conn   net.Conn
	in     *Clocked
	read   *bufio.Reader // of in
	out    *bufio.Writer
	framer *http2.Framer

	headers bytes.Buffer
	encoder *hpack.Encoder
	decoder *hpack.Decoder

	streams []stream
	window  uint32 // of a stream
	unread  int    // bytes of the connection since its last window update

	unsent    []unsent // requests that wait until the server has room
	room      int      // bytes that the server allows on the connection
	firstRoom int      // bytes that the server allows on a new stream
}

// unsent is the rest of a request.
type unsent struct {
	stream uint32
	data   []byte
	end    bool // of the client's half of the stream
}

// Options are the options for reading a connection.
type Options struct {
	Buffer int    // size of the read buffer
	Window uint32 // window of streams without updates; 0: the largest, with updates
}

// stream is the state of one stream.
type stream struct {
	partial []byte // beginning of an incomplete message
	unread  int    // bytes since the last window update
	call    bool   // a unary call
	room    int    // bytes that the server allows
}

// Dial connects to an address in plain text.
func Dial(ctx context.Context, address string, o Options) (*Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	c := &Conn{
		conn: conn, in: &Clocked{Conn: conn}, out: bufio.NewWriterSize(conn, 4096), window: o.Window,
		room: defaultRoom, firstRoom: defaultRoom,
	}
	c.read = bufio.NewReaderSize(c.in, o.Buffer)
	c.framer = http2.NewFramer(c.out, c.read)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(maxFrame)
	c.encoder = hpack.NewEncoder(&c.headers)
	c.decoder = hpack.NewDecoder(4096, nil)
	if err := c.handshake(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("start HTTP/2 with %s: %w", address, err)
	}
	return c, nil
}

// handshake sends the preface and the settings. It does not wait for an answer.
func (c *Conn) handshake() error {
	if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
		return err
	}
	if c.window == 0 {
		c.window = window
	}
	if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: c.window}); err != nil {
		return err
	}
	if err := c.framer.WriteWindowUpdate(0, window-65535); err != nil {
		return err
	}
	return c.out.Flush()
}

// Open opens a stream with one request. If half is true, the client closes its half of the
// stream after the request.
func (c *Conn) Open(path string, request []byte, half bool) error {
	id := uint32(2*len(c.streams) + 1)
	c.headers.Reset()
	for _, h := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", path},
		{":authority", c.conn.RemoteAddr().String()},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
		{"user-agent", "fanoutbench"},
	} {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers.Bytes(), EndHeaders: true}); err != nil {
		return fmt.Errorf("open a stream: %w", err)
	}
	c.streams = append(c.streams, stream{room: c.firstRoom})
	return c.send(id, request, half)
}

// Call opens a stream for a unary request. Its end is reported only if it is an error.
func (c *Conn) Call(path string, request []byte) error {
	if err := c.Open(path, request, true); err != nil {
		return err
	}
	c.streams[len(c.streams)-1].call = true
	return nil
}

// Send sends another message on a stream whose client half is open. What does not fit into the room
// that the server allows waits for Read, see Fits.
func (c *Conn) Send(stream int, message []byte) error {
	return c.send(uint32(2*stream+1), message, false)
}

// Fits reports whether a message for a stream fits into the room that the server allows. A caller
// that flushes and reads until it does keeps no requests in memory.
func (c *Conn) Fits(stream int, message []byte) bool {
	size := len(Prefix(0)) + len(message)
	return len(c.unsent) == 0 && size <= c.room && size <= c.streams[stream].room
}

func (c *Conn) send(id uint32, message []byte, end bool) error {
	c.unsent = append(c.unsent, unsent{id, append(Prefix(len(message)), message...), end})
	return c.sendUnsent()
}

// sendUnsent sends what waits, in order, as far as the server has room.
func (c *Conn) sendUnsent() error {
	for len(c.unsent) > 0 {
		next := &c.unsent[0]
		s := &c.streams[index(next.stream)]
		part := next.data[:min(len(next.data), maxFrame, max(c.room, 0), max(s.room, 0))]
		if len(part) == 0 {
			return nil
		}
		next.data = next.data[len(part):]
		c.room -= len(part)
		s.room -= len(part)
		last := len(next.data) == 0
		if err := c.framer.WriteData(next.stream, next.end && last, part); err != nil {
			return fmt.Errorf("send a request: %w", err)
		}
		if last {
			c.unsent = c.unsent[1:]
		}
	}
	return nil
}

// Prefix returns the gRPC prefix of a message of this size.
func Prefix(size int) []byte {
	return binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
}

// Flush sends the requests.
func (c *Conn) Flush() error {
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("send requests: %w", err)
	}
	return nil
}

// SetDeadline sets the deadline for reads and writes.
func (c *Conn) SetDeadline(t time.Time) error { return c.conn.SetDeadline(t) }

// Close closes the connection, which ends its reader.
func (c *Conn) Close() error { return c.conn.Close() }

// Read handles messages until stop returns true after one, or until an error. The end of a
// stream is an error, because watches do not end.
func (c *Conn) Read(receive Receive, stop func() bool) error {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return fmt.Errorf("read from the server: %w", err)
		}
		if err := c.handle(frame, receive); err != nil {
			return err
		}
		if stop() {
			return nil
		}
	}
}

// Buffered returns the number of bytes that have arrived and that Read has not handled. If it is 0, the
// next frame may take long to arrive.
func (c *Conn) Buffered() int { return c.read.Buffered() }

func (c *Conn) handle(frame http2.Frame, receive Receive) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return c.data(f, receive)
	case *http2.HeadersFrame:
		return c.header(f)
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if size, ok := f.Value(http2.SettingInitialWindowSize); ok {
			for i := range c.streams {
				c.streams[i].room += int(size) - c.firstRoom
			}
			c.firstRoom = int(size)
		}
		if err := c.sendUnsent(); err != nil {
			return err
		}
		return c.flushAfter(c.framer.WriteSettingsAck())
	case *http2.WindowUpdateFrame:
		if i := index(f.StreamID); f.StreamID == 0 {
			c.room += int(f.Increment)
		} else if i < len(c.streams) {
			c.streams[i].room += int(f.Increment)
		}
		if len(c.unsent) > 0 {
			return c.flushAfter(c.sendUnsent())
		}
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		return c.flushAfter(c.framer.WritePing(true, f.Data))
	case *http2.RSTStreamFrame:
		return fmt.Errorf("the server reset stream %d: %v", index(f.StreamID), f.ErrCode)
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server closed the connection: %v", f.ErrCode)
	}
	return nil
}

// flushAfter flushes after a write that returned err.
func (c *Conn) flushAfter(err error) error {
	if err != nil {
		return err
	}
	return c.Flush()
}

func index(id uint32) int { return int(id-1) / 2 }

func (c *Conn) data(f *http2.DataFrame, receive Receive) error {
	i, n := index(f.StreamID), int(f.Length)
	if i >= len(c.streams) {
		return fmt.Errorf("unknown stream %d", i)
	}
	s := &c.streams[i]
	if err := c.updateWindow(0, &c.unread, n); err != nil {
		return err
	}
	if c.window == window {
		if err := c.updateWindow(f.StreamID, &s.unread, n); err != nil {
			return err
		}
	}
	if err := s.messages(f.Data(), func(message []byte) error { return receive(i, message, c.in.At) }); err != nil {
		return err
	}
	if f.StreamEnded() {
		return fmt.Errorf("the server ended stream %d", i)
	}
	return nil
}

// updateWindow sends a window update of a stream, or of the connection (id 0), when it is due.
func (c *Conn) updateWindow(id uint32, unread *int, n int) error {
	if *unread += n; *unread < updateAfter {
		return nil
	}
	err := c.framer.WriteWindowUpdate(id, uint32(*unread))
	*unread = 0
	return c.flushAfter(err)
}

// errCompressed refuses compressed messages, which the client did not ask for.
var errCompressed = errors.New("the server sent a compressed message")

// messages splits the data of a stream into messages. It does not copy complete messages.
func (s *stream) messages(data []byte, receive func([]byte) error) error {
	const prefix = 5
	if len(s.partial) > 0 {
		s.partial = append(s.partial, data...)
		data = s.partial
	}
	for len(data) >= prefix {
		if data[0] != 0 {
			return errCompressed
		}
		size := prefix + int(binary.BigEndian.Uint32(data[1:prefix]))
		if len(data) < size {
			break
		}
		if err := receive(data[prefix:size]); err != nil {
			return err
		}
		data = data[size:]
	}
	// data may alias the end of s.partial. This is safe, because append copies forward.
	s.partial = append(s.partial[:0], data...)
	return nil
}

// header handles a header, and the status at the end of a stream. It decodes every header,
// because each depends on the previous ones.
func (c *Conn) header(f *http2.HeadersFrame) error {
	fields, err := c.decoder.DecodeFull(f.HeaderBlockFragment())
	if err != nil {
		return fmt.Errorf("decode a header: %w", err)
	}
	if !f.StreamEnded() {
		return nil
	}
	ended := &EndedError{Stream: index(f.StreamID)}
	for _, field := range fields {
		switch field.Name {
		case "grpc-status":
			ended.Status = field.Value
		case "grpc-message":
			ended.Message = field.Value
		}
	}
	if i := ended.Stream; ended.Status == "0" && i < len(c.streams) && c.streams[i].call {
		return nil
	}
	return ended
}

// EndedError reports the end of a stream by the server.
type EndedError struct {
	Stream  int
	Status  string // the gRPC status, as a number
	Message string
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("the server ended stream %d with status %s: %s", e.Stream, e.Status, e.Message)
}
