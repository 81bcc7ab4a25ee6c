package transport

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scriptedListener returns errors, and then waits until it is closed.
type scriptedListener struct {
	net.Listener
	errors []error
	calls  int
	closed chan struct{}
}

func (l *scriptedListener) Accept() (net.Conn, error) {
	if l.calls++; l.calls <= len(l.errors) {
		return nil, l.errors[l.calls-1]
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *scriptedListener) Close() error {
	close(l.closed)
	return nil
}

// shortage is what accept returns when the process has no file descriptors left.
func shortage(why error) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", why)}
}

// A listener that cannot accept connections for lack of file descriptors or memory tries again
// less and less often, and goes on when they are back.
func TestAcceptWaitsWhileFileDescriptorsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []error
		for range 100 {
			all = append(all, shortage(syscall.EMFILE), shortage(syscall.ENFILE), shortage(syscall.ENOBUFS), shortage(syscall.ENOMEM))
		}
		inner := &scriptedListener{errors: all, closed: make(chan struct{})}
		failures := 0
		l := LimitListener(inner, nil, func(error) { failures++ })
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		const minute = 60
		time.Sleep(minute * time.Second)
		synctest.Wait()
		if inner.calls > minute+10 || inner.calls < minute/2 || failures != inner.calls {
			t.Errorf("got %d attempts and %d reported failures in a minute, want about %d", inner.calls, failures, minute)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; err == nil {
			t.Error("got no error after Close")
		}
	})
}

// Other errors are those of the listener.
func TestAcceptReturnsOtherErrors(t *testing.T) {
	want := errors.New("broken")
	l := LimitListener(&scriptedListener{errors: []error{want}, closed: make(chan struct{})}, nil, nil)
	if _, err := l.Accept(); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}
