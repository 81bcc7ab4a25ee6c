package testserver_test

import (
	"net"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// busyListener cannot accept its first connections.
type busyListener struct {
	net.Listener
	failures []error
}

func (l *busyListener) Accept() (net.Conn, error) {
	if len(l.failures) > 0 {
		err := l.failures[0]
		l.failures = l.failures[1:]
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return l.Listener.Accept()
}

func TestAServerThatCannotAcceptTriesAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := testserver.New(&busyListener{l, []error{syscall.EMFILE, syscall.ECONNABORTED}}, "config")
	defer s.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Read(make([]byte, 1)); err != nil { // the beginning of HTTP/2
		t.Error(err)
	}
}
