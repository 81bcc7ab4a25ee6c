package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// listener prepares connections for http.Server. It does TLS itself, because LimitStreams has to
// see the HTTP/2 frames between TLS and http.Server. To http.Server, all connections are plain
// text.
type listener struct {
	net.Listener
	tls    *tls.Config // nil: plain text
	limit  func(conn net.Conn) net.Conn
	failed func(address string, err error)
	log    *slog.Logger
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, opened: time.Now()}
	if l.tls != nil {
		c.tls = &tlsConn{tls.Server(raw, l.tls), l.failed, l.log}
		c.Conn = c.tls
	}
	c.Conn = l.limit(c.Conn)
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

// connOf returns the connection of a request.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// withTLS sets the TLS state of requests, which http.Server does not know.
func withTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := connOf(r); c != nil && c.tls != nil {
			state := c.tls.ConnectionState()
			r.TLS = &state
		}
		next.ServeHTTP(w, r)
	})
}

// tlsConn is a connection with TLS. The first Read does the handshake, so the time limit for
// the header of a request includes it.
type tlsConn struct {
	*tls.Conn
	failed func(address string, err error)
	log    *slog.Logger
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
	c.failed(c.RemoteAddr().String(), err)
	// Any client can cause any number of these lines.
	c.log.Debug("TLS handshake failed", "peer", c.RemoteAddr().String(), "error", err)
}

// looksLikeHTTP reports whether a client has begun with the method of an HTTP request.
func looksLikeHTTP(begin []byte) bool {
	switch string(begin) {
	case "GET /", "HEAD ", "POST ", "PUT /", "DELET", "OPTIO":
		return true
	}
	return false
}
