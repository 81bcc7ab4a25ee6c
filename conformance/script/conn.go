package script

import (
	"net"
	"sync"

	"google.golang.org/grpc"
)

// onlyConn is a listener that accepts one connection.
type onlyConn struct {
	conn   *conn
	once   sync.Once
	closed chan struct{}
	close  sync.Once
}

// Accept implements net.Listener. After the connection, it waits until the listener is closed.
func (l *onlyConn) Accept() (c net.Conn, err error) {
	l.once.Do(func() { c = l.conn })
	if c != nil {
		return c, nil
	}
	select {
	case <-l.closed:
	case <-l.conn.closed:
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *onlyConn) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *onlyConn) Addr() net.Addr { return l.conn.LocalAddr() }

// conn is a connection of a client.
type conn struct {
	net.Conn
	server         *grpc.Server // serves only this connection
	closed, frozen chan struct{}
	close, freeze  sync.Once
	goneAway       chan struct{} // closed when GOAWAY was sent
	goAway         sync.Once
}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, closed: make(chan struct{}), frozen: make(chan struct{}), goneAway: make(chan struct{})}
}

// Read implements net.Conn. A frozen connection has nothing to read until it is closed.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.isHalfOpen() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn. What is written to a frozen connection is lost.
func (c *conn) Write(p []byte) (int, error) {
	if c.isHalfOpen() {
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	if hasGoAway(p) {
		c.goAway.Do(func() { close(c.goneAway) })
	}
	return n, err
}

// hasGoAway reports whether one of the frames is a GOAWAY. The header of a frame of HTTP/2 has nine bytes: three for
// the length, and one for the type. The server writes whole frames, because those of scenarios are small.
func hasGoAway(frames []byte) bool {
	const headerBytes, goAway = 9, 7
	for len(frames) >= headerBytes {
		if frames[3] == goAway {
			return true
		}
		size := headerBytes + int(frames[0])<<16 + int(frames[1])<<8 + int(frames[2])
		frames = frames[min(size, len(frames)):]
	}
	return false
}

// Close implements net.Conn. The client of a frozen connection does not see the end.
func (c *conn) Close() error {
	c.close.Do(func() { close(c.closed) })
	if c.isHalfOpen() {
		return nil
	}
	return c.Conn.Close()
}

// hangUp closes the connection, even if it is frozen.
func (c *conn) hangUp() {
	c.close.Do(func() { close(c.closed) })
	_ = c.Conn.Close() // the other side may have closed it
}

// halfOpen makes the connection silent, without an end that the client could see.
func (c *conn) halfOpen() { c.freeze.Do(func() { close(c.frozen) }) }

func (c *conn) isHalfOpen() bool {
	select {
	case <-c.frozen:
		return true
	default:
		return false
	}
}
