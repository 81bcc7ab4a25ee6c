package server

import (
	"cmp"
	"context"
	"net"
	"net/netip"

	"github.com/fanoutd/fanoutd/internal/access"
)

// client is who limits count: somebody with a name, or else a host.
type client struct {
	name    string // of the identity; empty where nobody knows it
	address string // otherwise: of the host, or of the network of a host with IPv6
}

// hostBits is how much of an IPv6 address says which host it is, as far as anybody
// can tell from outside: the rest a host chooses for itself, as often as it likes
// (RFC 8981).
const hostBits = 64

// clientOf returns who makes a request.
func clientOf(ctx context.Context) client {
	if identity := access.From(ctx); !identity.Anonymous() {
		return client{name: identity.Name}
	}
	address, _ := caller(ctx)
	return clientAt(address)
}

// clientAt returns the client at an address, with a port or without.
func clientAt(address string) client {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return client{address: host}
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return client{address: ip.String()}
	}
	network, err := ip.Prefix(hostBits)
	if err != nil {
		return client{address: host}
	}
	return client{address: network.String()}
}

// String returns what the client itself and operators are told.
func (c client) String() string { return cmp.Or(c.name, c.address, "unknown") }
