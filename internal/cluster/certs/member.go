package certs

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MemberName is a DNS name that every certificate of an [Authority] contains. Nothing resolves it;
// "internal" is reserved for private use.
const MemberName = "member.fanoutd.internal"

// Member is a member of the cluster, or one that will be.
type Member struct {
	Name  string
	Hosts []string // DNS names, which may begin with "*.", and addresses at which others reach it
}

var (
	memberName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	hostName   = regexp.MustCompile(`^(\*\.)?([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
)

// ParseMember parses NAME=HOST[,HOST]... A host may have a port, which a certificate does not contain.
func ParseMember(text string) (Member, error) {
	name, hosts, found := strings.Cut(text, "=")
	if !found || hosts == "" {
		return Member{}, fmt.Errorf("invalid member %q (want NAME=HOST, for example node-1=10.0.0.1)", text)
	}
	m := Member{Name: name}
	for host := range strings.SplitSeq(hosts, ",") {
		host = strings.TrimSpace(host)
		if h, port, err := net.SplitHostPort(host); err == nil {
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return Member{}, fmt.Errorf("invalid host %q of member %s (want a DNS name or an IP address)", host, name)
			}
			host = h
		}
		m.Hosts = append(m.Hosts, strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	}
	return m, m.validate()
}

func (m Member) validate() error {
	if !memberName.MatchString(m.Name) {
		return fmt.Errorf("invalid member name %q (want at most 63 letters, digits, dots, hyphens and underscores)", m.Name)
	}
	if len(m.Hosts) == 0 {
		return fmt.Errorf("member %s has no host", m.Name)
	}
	for _, host := range m.Hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			if address.Zone() != "" || address.IsUnspecified() {
				return fmt.Errorf("invalid host %q of member %s: other members cannot reach this address", host, m.Name)
			}
		} else if len(host) > 253 || !hostName.MatchString(host) {
			return fmt.Errorf("invalid host %q of member %s (want a DNS name or an IP address)", host, m.Name)
		}
	}
	return nil
}

// alternatives returns the names and addresses in the member's certificate. They include the member's
// own machine, for tools that run on it.
func (m Member) alternatives() (names []string, addresses []net.IP) {
	hosts := slices.Concat(m.Hosts, []string{"localhost", "127.0.0.1", "::1", MemberName})
	if hostName.MatchString(m.Name) {
		hosts = append(hosts, m.Name)
	}
	seen := map[string]bool{}
	for _, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			if text := address.Unmap().String(); !seen[text] {
				seen[text] = true
				addresses = append(addresses, net.IP(address.Unmap().AsSlice()))
			}
		} else if text := strings.ToLower(host); !seen[text] {
			seen[text] = true
			names = append(names, text)
		}
	}
	return names, addresses
}

// memberOf returns the member to whom a certificate was issued.
func memberOf(leaf *x509.Certificate) Member {
	m := Member{Name: leaf.Subject.CommonName}
	names, addresses := m.alternatives() // that it has in any case
	for _, name := range leaf.DNSNames {
		if !slices.Contains(names, name) {
			m.Hosts = append(m.Hosts, name)
		}
	}
	for _, address := range leaf.IPAddresses {
		if !slices.ContainsFunc(addresses, address.Equal) {
			m.Hosts = append(m.Hosts, address.String())
		}
	}
	if len(m.Hosts) == 0 {
		m.Hosts = []string{"localhost"} // its only host is its name, or this machine
		if hostName.MatchString(m.Name) {
			m.Hosts = []string{m.Name}
		}
	}
	return m
}
