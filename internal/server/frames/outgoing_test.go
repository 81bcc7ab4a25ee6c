package frames

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// writtenConn keeps what is written to it.
type writtenConn struct {
	net.Conn
	bytes.Buffer
}

// Read implements net.Conn.
func (c *writtenConn) Read([]byte) (int, error) { return 0, io.EOF }

// Write implements net.Conn.
func (c *writtenConn) Write(b []byte) (int, error) { return c.Buffer.Write(b) }

// frameBytes returns frames as gRPC writes them.
func frameBytes(t testing.TB, write ...func(*http2.Framer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	for _, w := range write {
		if err := w(f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func data(stream uint32, size int) func(*http2.Framer) error {
	return func(f *http2.Framer) error { return f.WriteData(stream, false, make([]byte, size)) }
}

func goAway(last uint32) func(*http2.Framer) error {
	return func(f *http2.Framer) error { return f.WriteGoAway(last, http2.ErrCodeNo, []byte("max_age")) }
}

// The GOAWAY precedes the first frame that begins after GoAway, wherever the writes are cut.
func TestGoAwayIsWrittenBetweenFrames(t *testing.T) {
	before, after := frameBytes(t, data(1, 10), data(3, 100)), frameBytes(t, data(5, 20))
	want := bytes.Join([][]byte{before, goAwayFrame, after, after}, nil)
	for cut := 1; cut <= len(before); cut++ {
		inner := &writtenConn{}
		c := NewConn(inner, nil)
		write := func(b []byte) {
			t.Helper()
			if n, err := c.Write(b); n != len(b) || err != nil {
				t.Fatalf("got %d, %v from Write, want %d", n, err, len(b))
			}
		}
		write(before[:cut])
		if cut < len(before) && !c.outgoing.betweenFrames() {
			c.GoAway()
			write(before[cut:])
		} else {
			write(before[cut:])
			c.GoAway()
		}
		write(after)
		c.GoAway()
		write(after)
		if got := inner.Bytes(); !bytes.Equal(got, want) {
			t.Errorf("cut at %d: got frames\n%x, want\n%x", cut, got, want)
		}
	}
}

// A GOAWAY of gRPC has ended the connection already, perhaps with a lower stream id.
func TestGoAwayDoesNotFollowThatOfGRPC(t *testing.T) {
	all := frameBytes(t, data(1, 10), goAway(7), data(1, 10))
	inner := &writtenConn{}
	c := NewConn(inner, nil)
	for len(all) > 0 {
		n := min(5, len(all))
		if _, err := c.Write(all[:n]); err != nil {
			t.Fatal(err)
		}
		all = all[n:]
	}
	written := inner.Len()
	c.GoAway()
	more := frameBytes(t, data(1, 10))
	if _, err := c.Write(more); err != nil {
		t.Fatal(err)
	}
	if got := inner.Bytes()[written:]; !bytes.Equal(got, more) {
		t.Errorf("got frames\n%x, want\n%x", got, more)
	}
}

// The connection sees how the server ends a stream, wherever the writes are cut.
func TestEndsOfStreamsAreSeenInPieces(t *testing.T) {
	written := frameBytes(t,
		func(f *http2.Framer) error { return f.WriteRSTStream(1, http2.ErrCodeProtocol) },
		func(f *http2.Framer) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("x"), EndHeaders: true, EndStream: true})
		},
		func(f *http2.Framer) error { return f.WriteData(5, true, nil) },
		data(7, 10),
		func(f *http2.Framer) error { return f.WriteRSTStream(3, http2.ErrCodeProtocol) },
		func(f *http2.Framer) error { return f.WriteRSTStream(5, http2.ErrCodeProtocol) },
	)
	for cut := range written {
		budget := &fakeBudget{allow: 10}
		c := NewConn(&writtenConn{}, budget)
		for id := uint32(1); id <= 7; id += 2 {
			c.streams[id] = &clientStream{opened: time.Now().Add(time.Hour)} // young, however slow the test is
		}
		for _, piece := range [][]byte{written[:cut], written[cut:]} {
			if _, err := c.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if got := budget.clients(); len(got) != 1 {
			t.Errorf("cut at %d: got %d abandoned streams, want that of stream 1", cut, len(got))
		}
	}
}
