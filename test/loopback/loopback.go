// Package loopback finds addresses for servers under test.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress returns an address of this machine that nobody listened on a moment
// ago, for processes that cannot say which one they have chosen. Its port is below
// those that systems give to connections, of which there are many in between.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if l, err := net.Listen("tcp", address); err == nil {
			defer l.Close()
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}
