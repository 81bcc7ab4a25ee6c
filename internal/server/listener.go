package server

import (
	"net"
	"sync"
)

// Limited returns a listener that takes no more connections than the limits allow,
// together with all others that were made by this method. What is too much is closed
// at once: who waits would not know that, and one host could make all others wait.
func (s *Server) Limited(l net.Listener) net.Listener {
	return &limitedListener{l, s.limits.connections}
}

type limitedListener struct {
	net.Listener
	places *places
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		giveBack, err := l.places.take(clientAt(conn.RemoteAddr().String()))
		if err == nil {
			return limited(conn, sync.OnceFunc(giveBack)), nil
		}
		_ = conn.Close() // it was not wanted
	}
}

// limited returns a connection that gives back its place when it is closed. What is
// served on one of TCP may want more of it than any connection has: to be half closed,
// for example, which is how HTTP has its last words arrive.
func limited(conn net.Conn, giveBack func()) net.Conn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &limitedTCP{tcp, giveBack}
	}
	return &limitedConn{conn, giveBack}
}

type limitedTCP struct {
	*net.TCPConn
	giveBack func()
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
