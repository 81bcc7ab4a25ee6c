package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/fanoutd/fanoutd/internal/cluster"
	"github.com/fanoutd/fanoutd/internal/cluster/certs"
	"github.com/fanoutd/fanoutd/internal/config"
)

// Servers returns the name of this server and the servers of its cluster, which is configured.
func Servers(cfg config.Config) (own string, list cluster.List, err error) {
	machine, err := os.Hostname()
	if err != nil && cfg.Cluster.Name == "" {
		return "", nil, fmt.Errorf("cannot read the name of the machine, so set cluster.name: %w", err)
	}
	if own, err = cfg.Cluster.Own(machine); err != nil {
		return "", nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Cluster.Members)) {
		host, port := cfg.Cluster.Address(name)
		list = append(list, cluster.Server{
			Name: name, Peer: net.JoinHostPort(host, strconv.Itoa(port)), Client: net.JoinHostPort(host, strconv.Itoa(cfg.Cluster.ClientPort)),
		})
	}
	return own, list, nil
}

// memberSecurity is how the servers of a cluster recognize each other. Without files, they do not.
type memberSecurity struct {
	files          certs.Files
	names          certs.Verification
	server, client *tls.Config // of the lobby, and of questions to the others
}

// secureMembers reads the certificates of the cluster.
func secureMembers(cfg config.Config, list cluster.List) (s memberSecurity, err error) {
	s.files = memberFiles(cfg)
	if s.files == (certs.Files{}) {
		return s, nil
	}
	now := time.Now()
	status, err := s.files.Read(now)
	if err == nil {
		err = status.Valid(now)
	}
	if err != nil {
		return s, fmt.Errorf("certificate of this server in the cluster: %w", err)
	}
	s.names = status.Verification(hostsOf(list))
	s.server = s.files.Server(s.names)
	if s.client, err = s.files.Client(s.names); err != nil {
		return s, fmt.Errorf("configure TLS to the cluster: %w", err)
	}
	return s, nil
}

// memberFiles returns the files of the certificate with which this server is a member.
func memberFiles(cfg config.Config) certs.Files {
	return certs.Files{CA: cfg.Cluster.CAFile, Cert: cfg.Cluster.CertFile, Key: cfg.Cluster.KeyFile}
}

// hostsOf returns the hosts of all servers.
func hostsOf(list cluster.List) (hosts []string) {
	for _, s := range list {
		host, _, _ := net.SplitHostPort(s.Peer)
		hosts = append(hosts, host)
	}
	return hosts
}

// listenAt returns the address on which to listen, so that others reach it at the given one. Own is a host that
// is configured for that, or empty. A machine may know its own name under an address that others cannot reach. Go and
// etcd listen on 0.0.0.0 with IPv6, too, if the machine has it, and "::" would fail if it does not.
func listenAt(address, own string) string {
	host, port, _ := net.SplitHostPort(address)
	if own != "" {
		return net.JoinHostPort(own, port)
	}
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return address
	}
	return net.JoinHostPort("0.0.0.0", port)
}

func peersOf(list cluster.List) (addresses []string) {
	for _, s := range list {
		addresses = append(addresses, s.Peer)
	}
	return addresses
}

func clientsOf(list cluster.List) (addresses []string) {
	for _, s := range list {
		addresses = append(addresses, s.Client)
	}
	return addresses
}

// FormWithout makes the server of these settings found a cluster without some servers that cannot answer. It
// may be running, or start later.
func FormWithout(cfg config.Config, without []string) error {
	if cfg.Cluster == nil {
		return errors.New("the setting cluster is missing")
	}
	own, list, err := Servers(cfg)
	if err != nil {
		return err
	}
	if err := list.CheckWithout(without, own); err != nil {
		return err
	}
	if err := checkOwner(cfg); err != nil {
		return err
	}
	directory, err := directoryOf(cfg)
	if err != nil {
		return err
	}
	if directory.Cluster != 0 {
		return fmt.Errorf("%s belongs to cluster %x already: start the server", cfg.DataDir, directory.Cluster)
	}
	return cluster.Form(cfg.DataDir, without)
}
