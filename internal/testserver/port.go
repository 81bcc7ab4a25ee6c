package testserver

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Port is a TCP port of the loopback interface. It stays open while the server is stopped, so no other process
// can take it; connections are then reset.
type Port struct {
	listener  tcpListener
	accepting sync.WaitGroup

	mu     sync.Mutex
	served *portListener // the latest one; guarded by mu
}

// tcpListener is a *net.TCPListener.
type tcpListener interface {
	net.Listener
	AcceptTCP() (*net.TCPConn, error)
}

// OpenPort opens a free port.
func OpenPort() (*Port, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("open a port: %w", err)
	}
	return newPort(l), nil
}

func newPort(l tcpListener) *Port {
	p := &Port{listener: l}
	p.accepting.Go(p.accept)
	return p
}

// Address returns the address of the port.
func (p *Port) Address() string { return p.listener.Addr().String() }

// Listen returns a listener that gets the connections until it is closed. It is the argument of [New].
func (p *Port) Listen() net.Listener {
	l := &portListener{address: p.listener.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served = l
	return l
}

// Close closes the port.
func (p *Port) Close() error {
	err := p.listener.Close()
	p.accepting.Wait()
	return err
}

// acceptPause is the time after which a port tries again to accept a connection, for example when the process had too
// many open files.
const acceptPause = 10 * time.Millisecond

// accept hands connections to the latest listener until the port is closed.
func (p *Port) accept() {
	for {
		c, err := p.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			<-time.After(acceptPause)
			continue
		}
		p.mu.Lock()
		served := p.served
		p.mu.Unlock()
		if served == nil || !served.take(c) {
			_ = c.SetLinger(0) // a reset, as from a port that is closed
			_ = c.Close()
		}
	}
}

// portListener is the port while a server runs.
type portListener struct {
	address net.Addr
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// take hands a connection over. It returns false if the listener is closed.
func (l *portListener) take(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
		return false
	}
}

// Accept implements net.Listener.
func (l *portListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *portListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *portListener) Addr() net.Addr { return l.address }
