package server_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// lookedAt shows a test what it accepts.
type lookedAt struct {
	net.Listener
	accepted chan *net.TCPConn
}

func (l lookedAt) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.accepted <- conn.(*net.TCPConn)
	return conn, nil
}

// A peer that is gone while something is on its way to it is noticed within half a minute,
// as one is that does not answer, and not in the quarter of an hour that TCP takes.
func TestAPeerThatAcknowledgesNothingIsGivenUp(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted, served := make(chan *net.TCPConn, 1), make(chan error, 1)
	go func() { served <- in.server.Serve(lookedAt{l, accepted}) }()
	reads := fanoutv1.NewFanoutServiceClient(dial(t, l.Addr().String()))
	retrying(t, func() error {
		_, err := reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
		return err
	})
	raw, err := (<-accepted).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var milliseconds int
	if controlErr := raw.Control(func(fd uintptr) {
		milliseconds, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
	if took := time.Duration(milliseconds) * time.Millisecond; took != 30*time.Second {
		t.Errorf("it is given up after %v", took)
	}
	in.stop(ctx)
	if err := <-served; err != nil {
		t.Error(err)
	}
}
