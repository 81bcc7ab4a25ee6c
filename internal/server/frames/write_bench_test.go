package frames

import (
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"
)

// discardConn accepts all writes.
type discardConn struct{ net.Conn }

// Read implements net.Conn.
func (discardConn) Read([]byte) (int, error) { return 0, io.EOF }

// Write implements net.Conn.
func (discardConn) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkWrite is what following the frames costs for a full buffer of gRPC with events of
// about 300 bytes, each in a frame of its own.
func BenchmarkWrite(b *testing.B) {
	const bufferBytes = 40 << 10
	frame := frameBytes(b, func(f *http2.Framer) error { return f.WriteData(1, false, make([]byte, 300)) })
	var buffer []byte
	for len(buffer) < bufferBytes {
		buffer = append(buffer, frame...)
	}
	c := NewConn(discardConn{}, nil)
	b.SetBytes(int64(len(buffer)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(buffer); err != nil {
			b.Fatal(err)
		}
	}
}
