package testserver

import (
	"net"
	"sync"
	"time"
)

// acceptPause is the time after which a server tries again to accept a connection, for example when the process had
// too many open files.
const acceptPause = 10 * time.Millisecond

// accept hands connections to the running instance until the listener is closed. While the server is stopped, they
// are reset; its port stays open, so no other process can take it.
func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.closed:
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		noted := &conn{c, s}
		s.conns.Store(noted, nil) // first: Stop sees it, or it is not handed over
		s.mu.Lock()
		running := s.running
		s.mu.Unlock()
		if running == nil || !running.listener.take(noted) {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a reset, as from a port that is closed
			}
			_ = noted.Close()
		}
	}
}

// conn is a connection of a client.
type conn struct {
	net.Conn
	server *Server
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.server.conns.Delete(c)
	return c.Conn.Close()
}

// listener gets the connections of an instance.
type listener struct {
	address net.Addr
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newListener(address net.Addr) *listener {
	return &listener{address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// take hands a connection over. It returns false if the listener is closed.
func (l *listener) take(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
		return false
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.address }
