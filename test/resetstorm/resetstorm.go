// Package resetstorm opens HTTP/2 streams and gives each up at once, as fast as it can.
package resetstorm

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Block returns the headers of a request, encoded. They are kept out of the dynamic table, so
// the block can be sent many times.
func Block(headers []hpack.HeaderField) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, h := range headers {
		h.Sensitive = true
		if err := encoder.WriteField(h); err != nil {
			panic(err) // a buffer does not fail
		}
	}
	return block.Bytes()
}

// GiveUp sends what ends a stream that the client has just opened.
type GiveUp func(f *http2.Framer, stream uint32) error

// The ways to give up a stream.
var (
	// Reset resets the stream.
	Reset GiveUp = func(f *http2.Framer, stream uint32) error { return f.WriteRSTStream(stream, http2.ErrCodeCancel) }

	// Violate makes the server reset the stream: the window grows by 0.
	Violate GiveUp = func(f *http2.Framer, stream uint32) error {
		return f.WriteRawFrame(http2.FrameWindowUpdate, 0, stream, make([]byte, 4))
	}

	// Wait does nothing. The headers contain a deadline that passes at once.
	Wait GiveUp = func(*http2.Framer, uint32) error { return nil }
)

// Run opens streams with the headers until the server closes the connection or sends GOAWAY,
// and closes the connection. It returns the GOAWAY frame, or nil. The caller sets a deadline.
func Run(t *testing.T, conn net.Conn, headers []hpack.HeaderField, giveUp GiveUp) *http2.GoAwayFrame {
	t.Helper()
	block, framer := Block(headers), http2.NewFramer(conn, conn)
	_, err := io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = framer.WriteSettings()
	}
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for id := uint32(1); err == nil; id += 2 {
			err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true})
			if err == nil {
				err = giveUp(framer, id)
			}
		}
	})
	defer group.Wait()
	defer conn.Close()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Logf("the connection ended: %v", err)
			return nil
		}
		if bye, ok := frame.(*http2.GoAwayFrame); ok {
			t.Logf("got %v after %d streams: %s", bye.ErrCode, bye.LastStreamID/2, bye.DebugData())
			return bye
		}
	}
}
