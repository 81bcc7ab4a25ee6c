package client

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"google.golang.org/grpc/resolver"
)

// target is where the servers are.
type target struct {
	uri   string     // for gRPC
	list  []endpoint // the servers, where several are given
	local bool       // all of them are on this machine
}

// endpoint is a server of a list.
type endpoint struct {
	address string // host:port
	name    string // that its certificate has to have
}

// listScheme is the scheme of targets that are lists. It is known to the one
// connection that has such a target, and to nobody else.
const (
	listScheme = "fanoutd-list"
	listURI    = listScheme + ":///servers"
)

func parseTarget(text string) (target, error) {
	if text == "" {
		return target{}, errors.New("is empty")
	}
	if strings.Contains(text, "://") || strings.HasPrefix(text, "unix:") {
		return parseURI(text)
	}
	to := target{uri: "dns:///" + text, local: true}
	var list []endpoint
	for address := range strings.SplitSeq(text, ",") {
		address = strings.TrimSpace(address)
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return target{}, fmt.Errorf("%w; it has to be host:port", err)
		}
		if port == "" {
			return target{}, fmt.Errorf("%q has no port", address)
		}
		to.local = to.local && isLocal(host)
		list = append(list, endpoint{address, host})
	}
	if len(list) > 1 {
		to.uri, to.list = listURI, list
	}
	return to, nil
}

func parseURI(text string) (target, error) {
	u, err := url.Parse(text)
	if err != nil {
		return target{}, err
	}
	to := target{uri: text}
	switch u.Scheme {
	case "unix", "unix-abstract":
		to.local = true
	case "http", "https":
		return target{}, errors.New("is not a target of gRPC; it has to be host:port")
	default:
		host, _, err := net.SplitHostPort(strings.TrimPrefix(u.Path, "/"))
		to.local = err == nil && isLocal(host)
	}
	return to, nil
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// resolvers returns what tells gRPC the addresses of a list.
func (to target) resolvers() []resolver.Builder {
	if to.list == nil {
		return nil
	}
	return []resolver.Builder{fixed(to.list)}
}

// fixed resolves to a list of servers that does not change.
type fixed []endpoint

// Build implements resolver.Builder.
func (f fixed) Build(_ resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	var state resolver.State
	for _, e := range f {
		// The certificate of a server is for its own name.
		state.Addresses = append(state.Addresses, resolver.Address{Addr: e.address, ServerName: e.name})
	}
	return f, conn.UpdateState(state)
}

// Scheme implements resolver.Builder.
func (f fixed) Scheme() string { return listScheme }

// OverrideAuthority implements resolver.AuthorityOverrider.
func (f fixed) OverrideAuthority(resolver.Target) string { return f[0].address }

// ResolveNow implements resolver.Resolver.
func (f fixed) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (f fixed) Close() {}
