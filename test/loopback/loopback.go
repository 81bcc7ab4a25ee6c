// Package loopback finds addresses for servers under test.
package loopback

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
)

// FreeAddress returns an address of this machine that nobody listens on, for
// processes that cannot say which one they have chosen. Where all of 127.0.0.0/8 is
// this machine's, as it is on Linux, the address is one of so many that nobody else
// takes it before the process does. The port is below those that systems give to
// connections.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := uint16(10_000 + rand.IntN(20_000))
		own := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(1 + rand.IntN(254)), byte(1 + rand.IntN(254))})
		for _, ip := range []netip.Addr{own, netip.AddrFrom4([4]byte{127, 0, 0, 1})} {
			address := netip.AddrPortFrom(ip, port).String()
			if l, err := net.Listen("tcp", address); err == nil {
				defer l.Close()
				return address
			}
		}
	}
	t.Fatal("there is no free port")
	return ""
}
