package quota

import (
	"cmp"
	"context"
	"net"
	"net/netip"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// Client is who limits count: somebody with a name, or else a host.
type Client struct {
	Name    string // of the identity; empty where nobody knows it
	Address string // otherwise: of the host, or of the network of a host with IPv6
}

// hostBits is how much of an IPv6 address says which host it is, as far as anybody
// can tell from outside: the rest a host chooses for itself, as often as it likes
// (RFC 8981).
const hostBits = 64

// ClientOf returns who makes a request.
func ClientOf(ctx context.Context) Client {
	if identity := access.From(ctx); !identity.Anonymous() {
		return Client{Name: identity.Name}
	}
	address, _ := transport.CallerOf(ctx)
	return ClientAt(address)
}

// ClientAt returns the client at an address, with a port or without.
func ClientAt(address string) Client {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return Client{Address: host}
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return Client{Address: ip.String()}
	}
	network, err := ip.Prefix(hostBits)
	if err != nil {
		return Client{Address: host}
	}
	return Client{Address: network.String()}
}

// String returns what the client itself and operators are told.
func (c Client) String() string { return cmp.Or(c.Name, c.Address, "unknown") }
