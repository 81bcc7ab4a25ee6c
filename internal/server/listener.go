package server

import (
	"net"
	"sync"
	"time"
)

// Limited returns a listener that takes no more connections than the limits allow,
// together with all others that were made by this method. What is too much is closed
// at once: who waits would not know that, and one host could make all others wait. Those
// that a host begins too soon one after the other are taken, and read when it is time.
func (s *Server) Limited(l net.Listener) net.Listener {
	return &limitedListener{l, s.limits}
}

type limitedListener struct {
	net.Listener
	limits *limits
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := clientAt(conn.RemoteAddr().String())
		giveBack, err := l.limits.connections.take(from)
		if err == nil {
			if wait, ok := l.limits.arrivals.next(from, time.Now()); ok {
				return limited(conn, sync.OnceFunc(giveBack), wait), nil
			}
			giveBack()
		}
		_ = conn.Close() // it was not wanted
	}
}

// limited returns a connection that gives back its place when it is closed, and is not
// read before some time has passed. What is served on one of TCP may want more of it
// than any connection has: to be half closed, for example, which is how HTTP has its
// last words arrive.
func limited(conn net.Conn, giveBack func(), wait time.Duration) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return &limitedConn{conn, giveBack}
	}
	c := &limitedTCP{TCPConn: tcp, giveBack: giveBack}
	if wait > 0 {
		c.due, c.closed = time.Now().Add(wait), make(chan struct{})
		c.giveBack = sync.OnceFunc(func() { close(c.closed); giveBack() })
	}
	return c
}

type limitedTCP struct {
	*net.TCPConn
	giveBack func()
	due      time.Time     // when it may be read; zero: at once
	closed   chan struct{} // nil if it may be read at once
}

// Read implements net.Conn.
func (c *limitedTCP) Read(b []byte) (int, error) {
	if !c.due.IsZero() {
		c.await()
	}
	return c.TCPConn.Read(b)
}

// await waits until the connection may be read or is closed.
func (c *limitedTCP) await() {
	wait := time.Until(c.due)
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closed:
	}
}

// Close implements net.Conn.
func (c *limitedTCP) Close() error {
	defer c.giveBack()
	return c.TCPConn.Close()
}

type limitedConn struct {
	net.Conn
	giveBack func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.giveBack()
	return c.Conn.Close()
}
