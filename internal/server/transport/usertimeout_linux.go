package transport

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout ends a connection whose peer has not acknowledged sent data for so long. gRPC
// does the same only for connections that are not wrapped.
func setUserTimeout(conn net.Conn, after time.Duration) error {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil // not a TCP connection
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("get the socket of the connection: %w", err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("limit how long a connection waits for acknowledgements: %w", err)
	}
	return nil
}
