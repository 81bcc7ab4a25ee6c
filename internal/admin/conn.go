package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// listener prepares connections for http.Server. It does TLS itself, because LimitStreams has to
// see the HTTP/2 frames between TLS and http.Server. To http.Server, all connections are plain
// text.
type listener struct {
	net.Listener
	cfg Config
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, opened: time.Now()}
	if l.cfg.TLS != nil {
		c.tls = &tlsConn{tls.Server(raw, l.cfg.TLS), l.cfg}
		c.Conn = c.tls
	}
	c.Conn = l.cfg.LimitStreams(c.Conn)
	return c, nil
}

// conn is a connection of a client.
type conn struct {
	net.Conn
	tls    *tlsConn // nil: plain text
	opened time.Time
}

// CloseWrite is what http.Server calls before it closes a connection, so that the client gets
// the last response.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

type connKey struct{}

// withConn is the ConnContext of http.Server.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request, whose context must come from [withConn].
func connOf(r *http.Request) *conn {
	return r.Context().Value(connKey{}).(*conn)
}

// tlsConn is a connection with TLS. The first Read does the handshake, so the time limit for
// the header of a request includes it.
type tlsConn struct {
	*tls.Conn
	cfg Config
}

// Read implements net.Conn.
func (c *tlsConn) Read(b []byte) (int, error) {
	if err := c.Handshake(); err != nil {
		c.refuse(err)
		return 0, io.EOF // http.Server closes the connection
	}
	return c.Conn.Read(b)
}

// refuse logs why the handshake has failed. A client that has sent HTTP without TLS can read it.
func (c *tlsConn) refuse(err error) {
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader[:]) {
		_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nThis port speaks HTTPS, and got an HTTP request.\n")
	}
	c.cfg.HandshakeFailed(c.RemoteAddr().String(), err)
	// Any client can cause any number of these lines.
	c.cfg.Log.Debug("TLS handshake failed", "peer", c.RemoteAddr().String(), "error", err)
}

// looksLikeHTTP reports whether a client has begun with the method of an HTTP request.
func looksLikeHTTP(begin []byte) bool {
	switch string(begin) {
	case "GET /", "HEAD ", "POST ", "PUT /", "DELET", "OPTIO":
		return true
	}
	return false
}
