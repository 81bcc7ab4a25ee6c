package transport

import (
	"net"
	"sync"
	"time"
)

// LimitListener returns a listener that closes connections that are not admitted at once:
// a client that waits would not know that, and one host could make all others wait.
func LimitListener(l net.Listener, admit Admission) net.Listener {
	return &limitedListener{l, admit}
}

// Admission admits a connection from an address, which is read after some time, or
// refuses it. What it returns is called when the connection is closed.
type Admission func(address string) (release func(), wait time.Duration, ok bool)

type limitedListener struct {
	net.Listener
	admit Admission
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if release, wait, ok := l.admit(conn.RemoteAddr().String()); ok {
			return delayRead(conn, sync.OnceFunc(release), wait), nil
		}
		_ = conn.Close() // it was not wanted
	}
}

// delayRead returns a connection that gives back its place when it is closed, and is not
// read before some time has passed. What is served on one of TCP may want more of it
// than any connection has: to be half closed, for example, which is how HTTP has its
// last words arrive.
func delayRead(conn net.Conn, giveBack func(), wait time.Duration) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return &limitedConn{conn, giveBack}
	}
	c := &limitedTCPConn{TCPConn: tcp, release: giveBack}
	if wait > 0 {
		c.readAt, c.closed = time.Now().Add(wait), make(chan struct{})
		c.release = sync.OnceFunc(func() { close(c.closed); giveBack() })
	}
	return c
}

type limitedTCPConn struct {
	*net.TCPConn
	release func()
	readAt  time.Time     // when it may be read; zero: at once
	closed  chan struct{} // nil if it may be read at once
}

// Read implements net.Conn.
func (c *limitedTCPConn) Read(b []byte) (int, error) {
	if !c.readAt.IsZero() {
		c.await()
	}
	return c.TCPConn.Read(b)
}

// await waits until the connection may be read or is closed.
func (c *limitedTCPConn) await() {
	wait := time.Until(c.readAt)
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
