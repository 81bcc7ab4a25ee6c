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
		own := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(1 + rand.IntN(254)), byte(1 + rand.IntN(254))}), port).String()
		// UDP shows that the address is local. A listener would make it busy for a moment longer if
		// another test starts a process now, which inherits the listener until it runs its program.
		if probe, err := net.ListenPacket("udp", own); err == nil {
			probe.Close()
			return own
		}
		shared := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String()
		if l, err := net.Listen("tcp", shared); err == nil {
			l.Close()
			return shared
		}
	}
	t.Fatal("no free port")
	return ""
}
