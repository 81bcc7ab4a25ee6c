//go:build !linux

package transport

import (
	"net"
	"time"
)

// setUserTimeout does nothing. Keepalive notices a little later that a peer is gone.
func setUserTimeout(net.Conn, time.Duration) error { return nil }
