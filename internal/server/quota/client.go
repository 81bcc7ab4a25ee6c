package quota

import (
	"cmp"
	"context"
	"net"
	"net/netip"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// Client identifies whom a limit applies to: an authenticated caller, or else a host.
type Client struct {
	Name    string // of the identity; empty for anonymous callers
	Address string // of an anonymous caller: its IPv4 address, or its IPv6 network
}

// hostBits is the length of the prefix of an IPv6 address that identifies a host. A host
// chooses the rest itself, as often as it likes (RFC 8981).
const hostBits = 64

// ClientOf returns the client that makes a request.
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

// String returns the client as errors and logs show it.
func (c Client) String() string { return cmp.Or(c.Name, c.Address, "unknown") }
