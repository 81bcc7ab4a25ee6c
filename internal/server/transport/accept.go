package transport

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// The pause after a failed accept. It doubles with each failure until one succeeds.
const (
	firstAcceptPause = 5 * time.Millisecond
	maxAcceptPause   = time.Second
)

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
	for pause := firstAcceptPause; ; pause = min(2*pause, maxAcceptPause) {
		conn, err := l.Listener.Accept()
		if err == nil || !isShortage(err) {
			return conn, err
		}
		l.failed(err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
