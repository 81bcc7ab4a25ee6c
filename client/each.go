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
)

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
