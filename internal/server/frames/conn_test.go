package frames

import (
	"io"
	"net"
	"strings"
	"testing"
)

// A connection that does not begin with the preface of HTTP/2 is passed on as it is, in both
// directions.
func TestOtherProtocolsArePassedOn(t *testing.T) {
	const request = "POST / HTTP/1.1\r\nContent-Length: 2000\r\n\r\n"
	for name, sent := range map[string]string{
		"no preface":          request + strings.Repeat("x", 2000),
		"a part of a preface": "PRI * HTTP/1.1\r\n\r\n" + strings.Repeat("\x00\x00\x04\x08", 500),
		"short":               "x",
	} {
		inside, outside := net.Pipe()
		conn := NewConn(inside, &fakeBudget{})
		go func() {
			_, _ = io.WriteString(outside, sent)
			_ = outside.Close()
		}()
		if got, err := io.ReadAll(conn); string(got) != sent || err != nil {
			t.Errorf("%s: got %q, %v from the client, want %q", name, got, err, sent)
		}
		_ = conn.Close()

		written := &writtenConn{}
		conn = NewConn(written, nil)
		conn.notHTTP2.Store(true)
		conn.GoAway()
		if _, err := io.WriteString(conn, sent); err != nil || written.String() != sent {
			t.Errorf("%s: got %q, %v for the client, want %q", name, written.String(), err, sent)
		}
	}
}
