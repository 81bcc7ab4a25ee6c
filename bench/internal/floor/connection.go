package floor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/fanoutd/fanoutd/bench/internal/raw"
)

const (
	maxFrameSize  = 16 << 10         // the same as that of the other systems
	writeSize     = 64 << 10         // bytes to collect before a write
	writeDeadline = 30 * time.Second // for a client that does not read
)

// connection is the connection of one client.
type connection struct {
	conn net.Conn

	mu      sync.Mutex // guards the following and serializes writes
	streams []uint32
}

// serve serves the client until it disconnects. Each stream gets a header and the first
// message; then it gets all broadcasts.
func (c *connection) serve(first func() ([]byte, error)) error {
	defer c.conn.Close()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.conn, preface); err != nil || string(preface) != http2.ClientPreface {
		return fmt.Errorf("read the HTTP/2 preface: %w", err)
	}
	var answer bytes.Buffer
	framer := http2.NewFramer(&answer, c.conn)
	framer.SetReuseFrames()
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	for {
		if err := c.write(&answer); err != nil {
			return err
		}
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = framer.WritePing(true, f.Data)
			}
		case *http2.DataFrame: // the request
			err = c.open(framer, &answer, f.StreamID, first)
		}
		if err != nil {
			return err
		}
	}
}

// open starts a stream. It sends the header before broadcasts can reach the stream.
func (c *connection) open(framer *http2.Framer, answer *bytes.Buffer, id uint32, first func() ([]byte, error)) error {
	m, err := first()
	if err != nil {
		return err
	}
	err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header(), EndHeaders: true})
	if err != nil {
		return err
	}
	if err := c.write(answer); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams = append(c.streams, id)
	frames := vectors(m, id)
	_, err = frames.WriteTo(c.conn)
	return err
}

// vectors returns a gRPC message as frames of a stream. It does not copy the message, which
// may be long.
func vectors(message []byte, id uint32) net.Buffers {
	var b net.Buffers
	for part := range slices.Chunk(message, maxFrameSize) {
		b = append(b, frameHeader(nil, len(part), id), part)
	}
	return b
}

// header encodes the header of a response. It adds nothing to the dynamic table of HPACK, so
// all responses share the encoding.
func header() []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSizeLimit(0)
	for _, field := range []hpack.HeaderField{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/grpc"}} {
		_ = e.WriteField(field) // cannot fail: it writes to memory
	}
	return b.Bytes()
}

func (c *connection) write(answer *bytes.Buffer) error {
	if answer.Len() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := answer.WriteTo(c.conn)
	return err
}

// broadcast sends a message to all streams. It builds the frames in the buffer of the
// caller, and returns the buffer for the next call.
func (c *connection) broadcast(message, buffer []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	buffer = buffer[:0]
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeDeadline)); err != nil {
		return buffer, err
	}
	for i, id := range c.streams {
		buffer = frames(buffer, message, id)
		if len(buffer) < writeSize && i < len(c.streams)-1 {
			continue
		}
		if _, err := c.conn.Write(buffer); err != nil {
			return buffer, err
		}
		buffer = buffer[:0]
	}
	return buffer, nil
}

// message puts the gRPC prefix before a message.
func message(m []byte) []byte { return append(raw.Prefix(len(m)), m...) }

// frames appends a gRPC message as frames of a stream.
func frames(b, message []byte, id uint32) []byte {
	for len(message) > 0 {
		n := min(len(message), maxFrameSize)
		b = append(frameHeader(b, n, id), message[:n]...)
		message = message[n:]
	}
	return b
}

func frameHeader(b []byte, n int, id uint32) []byte {
	b = append(b, byte(n>>16), byte(n>>8), byte(n), byte(http2.FrameData), 0)
	return binary.BigEndian.AppendUint32(b, id)
}
