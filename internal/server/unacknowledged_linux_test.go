package server_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// observedListener passes each accepted connection to the test as well.
type observedListener struct {
	net.Listener
	accepted chan *net.TCPConn
}

func (l observedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.accepted <- conn.(*net.TCPConn)
	return conn, nil
}

// The server drops a peer that does not acknowledge data within 30 seconds, the same
// time that keepalive takes. By default, TCP would wait for about 15 minutes.
func TestPeersThatAcknowledgeNothingAreDropped(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted, served := make(chan *net.TCPConn, 1), make(chan error, 1)
	go func() { served <- in.server.Serve(observedListener{l, accepted}) }()
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
	if timeout := time.Duration(milliseconds) * time.Millisecond; timeout != 30*time.Second {
		t.Errorf("got TCP_USER_TIMEOUT %v, want 30s", timeout)
	}
	in.stop(ctx)
	if err := <-served; err != nil {
		t.Error(err)
	}
}
