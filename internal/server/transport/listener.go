package transport

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// LimitListener returns a listener that closes connections at once that are not admitted. If
// it let them wait instead, clients would not know why, and one host could delay all others.
// While connections cannot be accepted for lack of file descriptors or memory, it reports that
// to failed and waits longer and longer before it tries again.
func LimitListener(l net.Listener, admit Admission, failed func(error)) net.Listener {
	open, stop := context.WithCancel(context.Background())
	return &limitedListener{Listener: l, admit: admit, failed: failed, open: open, close: stop}
}

// Admission decides about a connection from an address. If ok, the connection is accepted and
// first read after wait; release is called when it is closed. It may be called more often.
type Admission func(address string) (release func(), wait time.Duration, ok bool)

type limitedListener struct {
	net.Listener
	admit  Admission
	failed func(error)
	open   context.Context // ends with the listener
	close  context.CancelFunc
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.acceptNext()
		if err != nil {
			return nil, err
		}
		if release, wait, ok := l.admit(conn.RemoteAddr().String()); ok {
			return delayRead(conn, sync.OnceFunc(release), wait), nil
		}
		_ = conn.Close() // it is refused
	}
}

// delayRead returns a connection that is not read before wait has passed, and calls release
// when it is closed. A TCP connection stays a *net.TCPConn inside, because servers use more of
// it than net.Conn has: HTTP half-closes it so that the last response arrives.
func delayRead(conn net.Conn, release func(), wait time.Duration) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return &limitedConn{conn, release}
	}
	c := &limitedTCPConn{TCPConn: tcp, release: release}
	if wait > 0 {
		c.readAt, c.closed = time.Now().Add(wait), make(chan struct{})
		c.release = sync.OnceFunc(func() { close(c.closed); release() })
	}
	return c
}

type limitedTCPConn struct {
	*net.TCPConn
	release func()
	readAt  time.Time     // when it may be read first; zero: at once
	closed  chan struct{} // closed with the connection; nil if it may be read at once
}

// Read implements net.Conn.
func (c *limitedTCPConn) Read(b []byte) (int, error) {
	if !c.readAt.IsZero() {
		frames.Pause(time.Until(c.readAt), c.closed)
	}
	return c.TCPConn.Read(b)
}

// Close implements net.Conn.
func (c *limitedTCPConn) Close() error {
	defer c.release()
	return c.TCPConn.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
