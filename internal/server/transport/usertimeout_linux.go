package transport

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout has a connection end when its peer has not acknowledged for so long
// what was sent. gRPC does the same where nobody has wrapped the connection.
func setUserTimeout(conn net.Conn, after time.Duration) error {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil // no connection of TCP
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
