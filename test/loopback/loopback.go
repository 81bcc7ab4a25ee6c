// Package loopback finds addresses for servers under test.
package loopback

import (
	"net"
	"testing"
)

// FreeAddress returns an address of this machine that nobody listened on a moment
// ago, for processes that cannot say which one they have chosen.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
