package transport

import (
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/fanoutd/fanoutd/internal/backoff"
)

// acceptPauses are the pauses after failed attempts to accept a connection.
var acceptPauses = backoff.Backoff{First: 5 * time.Millisecond, Most: 1500 * time.Millisecond}

// isShortage reports whether a connection could not be accepted because the process or the
// machine lacks something, such as file descriptors. The connection stays in the queue of the
// listener, so the next attempt fails at once until something is freed.
func isShortage(err error) bool {
	for _, shortage := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, shortage) {
			return true
		}
	}
	return false
}

// acceptNext accepts a connection, and waits while none can be accepted. Only the goroutine of
// Accept calls it.
func (l *limitedListener) acceptNext() (net.Conn, error) {
	for pauses := acceptPauses; ; {
		conn, err := l.Listener.Accept()
		if err == nil || !isShortage(err) {
			return conn, err
		}
		l.failed(err)
		if !backoff.Sleep(l.open, pauses.Next()) {
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.close()
	return l.Listener.Close()
}
