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

// target is a parsed target of [New].
type target struct {
	uri   string     // for gRPC
	list  []endpoint // the servers, if the target is a list of several
	local bool       // all servers are on this machine
}

// endpoint is a server of a list.
type endpoint struct {
	address string // host:port
	name    string // the name that its certificate must have
}

// listScheme is the scheme of targets that are lists. Only the connection of such a
// target has a resolver for it.
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
			return target{}, fmt.Errorf("%w; want host:port", err)
		}
		if port == "" {
			return target{}, fmt.Errorf("%q has no port", address)
		}
		to.local = to.local && isLocalHost(host)
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
		return target{}, errors.New("is an HTTP URL; want host:port")
	default:
		host, _, err := net.SplitHostPort(strings.TrimPrefix(u.Path, "/"))
		if u.Scheme == "dns" && err != nil {
			return target{}, fmt.Errorf("%w; want dns:///host:port", err)
		}
		to.local = err == nil && isLocalHost(host)
	}
	return to, nil
}

// isLocalHost reports whether a host name or address is this machine.
func isLocalHost(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// resolvers returns the gRPC resolver of a list, or nothing for other targets.
func (to target) resolvers() []resolver.Builder {
	if to.list == nil {
		return nil
	}
	return []resolver.Builder{listResolver(to.list)}
}

// listResolver resolves to a fixed list of servers. It is its own builder.
type listResolver []endpoint

// Build implements resolver.Builder.
func (l listResolver) Build(_ resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	var state resolver.State
	for _, e := range l {
		// Each server shows a certificate of its own name.
		state.Addresses = append(state.Addresses, resolver.Address{Addr: e.address, ServerName: e.name})
	}
	return l, conn.UpdateState(state)
}

// Scheme implements resolver.Builder.
func (l listResolver) Scheme() string { return listScheme }

// OverrideAuthority implements resolver.AuthorityOverrider.
func (l listResolver) OverrideAuthority(resolver.Target) string { return l[0].address }

// ResolveNow implements resolver.Resolver.
func (l listResolver) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (l listResolver) Close() {}

// Server is a client of one of several servers.
type Server struct {
	// Address is the server's address as the target has it; for one of several servers
	// behind a DNS name, its IP address and port.
	Address string
	*Client
}

// EachServer returns a client for each server of a target, in the order of the target.
// Use it to ask each server about itself, for example who watches there.
//
// Each member of a list is a server. A DNS name with several addresses stands for one
// server per address; each must show a certificate of the name. If the name has both
// IPv4 and IPv6 addresses, only those of one kind count, because they probably belong
// to the same machines. Any other target is one server: the first that can be reached.
//
// EachServer does not connect, so the result includes servers that cannot be reached
// and names that DNS does not know. All clients must be closed.
func EachServer(ctx context.Context, target string, opts ...Option) ([]Server, error) {
	to, err := parseTarget(target)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", target, err)
	}
	// All requests of a client must reach the same server, pages of one list included.
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

// serverTarget is a target for one server of another target.
type serverTarget struct {
	address string
	target  target
}

// each returns a target for each server, without duplicates.
func (to target) each(ctx context.Context, lookup func(context.Context, string) ([]string, error)) []serverTarget {
	members := to.members()
	if members == nil {
		return []serverTarget{{to.uri, to}}
	}
	var all []serverTarget
	for _, member := range members {
		host, port, err := net.SplitHostPort(member)
		if err != nil { // cannot happen: parseTarget has checked it
			all = append(all, serverTarget{member, to})
			continue
		}
		addresses := lookupSeveral(ctx, host, lookup)
		if len(addresses) == 0 {
			all = append(all, serverTarget{member, target{uri: "dns:///" + member, local: to.local}})
		}
		for _, ip := range addresses {
			at := endpoint{net.JoinHostPort(ip, port), host}
			all = append(all, serverTarget{at.address, target{uri: listURI, list: []endpoint{at}, local: to.local}})
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s serverTarget) bool {
		duplicate := seen[s.address]
		seen[s.address] = true
		return duplicate
	})
}

// members returns the host:port of each member of a list or DNS target, and nil for
// other URIs.
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

// lookupSeveral returns the addresses of a host that stands for several servers, and
// nil for any other host.
func lookupSeveral(ctx context.Context, host string, lookup func(context.Context, string) ([]string, error)) []string {
	if isLocalHost(host) {
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	found, err := lookup(ctx, host)
	if err != nil || len(found) == 0 {
		return nil // connecting will report the error
	}
	first := isIPv4(found[0])
	found = slices.DeleteFunc(found, func(ip string) bool { return isIPv4(ip) != first })
	if len(found) < 2 {
		return nil
	}
	slices.Sort(found) // DNS servers rotate the order
	return found
}

func isIPv4(text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && ip.Unmap().Is4()
}
