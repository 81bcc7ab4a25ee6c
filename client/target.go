package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc"
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

// Server is one of several servers, and a client of it alone.
type Server struct {
	// Address is what the target calls it; for one of several behind a name of DNS its
	// own address.
	Address string
	*Client
}

// EachServer returns a client for each server of a target, in their order: for what
// each server knows of itself alone, such as who watches there. A member of a list is
// a server; if it is a name for which DNS has several addresses, each of these is one,
// and has to show a certificate of the name. A name that has both IPv4 and IPv6
// addresses stands for those of one kind, since they are likely the same machines.
// Any other target is one server: of those behind it the first that can be reached.
//
// No server is asked: those that cannot be reached are there, too, and so is a name that
// DNS does not know. All the clients must be closed.
func EachServer(ctx context.Context, target string, opts ...Option) ([]Server, error) {
	to, err := parseTarget(target)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", target, err)
	}
	// What it says of itself is of one server, and so are the pages of an answer.
	opts = append(slices.Clone(opts), WithDialOptions(grpc.WithDefaultServiceConfig(strings.Replace(serviceConfig, balancerName, "pick_first", 1))))
	var servers []Server
	for _, one := range to.each(ctx, net.DefaultResolver.LookupHost) {
		c, err := newClient(one.target, opts)
		if err != nil {
			for _, s := range servers {
				err = errors.Join(err, s.Close())
			}
			return nil, fmt.Errorf("server %q: %w", one.address, err)
		}
		servers = append(servers, Server{one.address, c})
	}
	return servers, nil
}

// single is one server of a target.
type single struct {
	address string
	target  target
}

// each returns the servers of a target, none of them twice.
func (to target) each(ctx context.Context, lookup func(context.Context, string) ([]string, error)) []single {
	members := to.members()
	if members == nil {
		return []single{{to.uri, to}}
	}
	var all []single
	for _, member := range members {
		host, port, err := net.SplitHostPort(member)
		if err != nil { // gRPC knows the port
			all = append(all, single{member, to})
			continue
		}
		found := several(ctx, host, lookup)
		if len(found) == 0 {
			all = append(all, single{member, target{uri: "dns:///" + member, local: to.local}})
		}
		for _, ip := range found {
			at := endpoint{net.JoinHostPort(ip, port), host}
			all = append(all, single{at.address, target{uri: listURI, list: []endpoint{at}, local: to.local}})
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s single) bool {
		again := seen[s.address]
		seen[s.address] = true
		return again
	})
}

// members returns the host:port of each server, nothing for a URI of something else.
func (to target) members() []string {
	if to.list != nil {
		var members []string
		for _, e := range to.list {
			members = append(members, e.address)
		}
		return members
	}
	if u, err := url.Parse(to.uri); err == nil && u.Scheme == "dns" && u.Host == "" {
		return []string{strings.TrimPrefix(u.Path, "/")}
	}
	return nil
}

// several returns the addresses of a host that stands for several servers, none for
// any other.
func several(ctx context.Context, host string, lookup func(context.Context, string) ([]string, error)) []string {
	if isLocal(host) {
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	found, err := lookup(ctx, host)
	if err != nil || len(found) == 0 {
		return nil // the connection says what is wrong
	}
	first := isIPv4(found[0])
	found = slices.DeleteFunc(found, func(ip string) bool { return isIPv4(ip) != first })
	if len(found) < 2 {
		return nil
	}
	slices.Sort(found) // DNS changes the order
	return found
}

func isIPv4(text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && ip.Unmap().Is4()
}
