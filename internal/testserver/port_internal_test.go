package testserver

import (
	"net"
	"syscall"
	"testing"
)

// busyListener cannot accept its first connections.
type busyListener struct {
	*net.TCPListener
	failures []error
}

func (l *busyListener) AcceptTCP() (*net.TCPConn, error) {
	if len(l.failures) > 0 {
		err := l.failures[0]
		l.failures = l.failures[1:]
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return l.TCPListener.AcceptTCP()
}

func TestAPortThatCannotAcceptTriesAgain(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	p := newPort(&busyListener{TCPListener: l, failures: []error{syscall.EMFILE, syscall.ECONNABORTED}})
	served := p.Listen()
	client, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := served.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.RemoteAddr().String(), client.LocalAddr().String(); got != want {
		t.Errorf("got the connection of %s, want %s", got, want)
	}
	c.Close()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
