package app

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/fanoutd/fanoutd/internal/cluster"
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

// bindable returns the address on which to listen, so that others reach it at the given one. A machine may
// know its own name under an address that others cannot reach.
func bindable(address string) string {
	host, port, _ := net.SplitHostPort(address)
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
	directory, err := directoryOf(cfg)
	if err != nil {
		return err
	}
	if directory.Cluster != 0 {
		return fmt.Errorf("%s belongs to cluster %x already: start the server", cfg.DataDir, directory.Cluster)
	}
	return cluster.Form(cfg.DataDir, without)
}
