// Package loopback finds addresses for servers under test.
package loopback

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
)

// FreeAddress returns an unused loopback address, for processes that cannot report which
// address they chose. On Linux, where all of 127.0.0.0/8 is local, the address is random
// among so many that no other process takes it first. The port is below the range of
// ephemeral ports.
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
	t.Fatal("no free port")
	return ""
}
