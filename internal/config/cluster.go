package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Cluster makes the server one of several that run etcd together, each with a member of its own.
type Cluster struct {
	// Members are the servers by name: the host at which the others reach it, or host:port for another
	// port of peers. All servers have the same list.
	Members map[string]string `yaml:"members"`

	Name string `yaml:"name"` // of this server; default: the member that has the name of the machine

	PeerPort   int `yaml:"peer-port"`   // for the members; default: 2380
	ClientPort int `yaml:"client-port"` // for clients of etcd; default: 2379

	// Listen is the host at which this server listens, if it is another one than that at which the others
	// reach it, because something forwards their connections.
	Listen string `yaml:"listen"`

	// The files with which members recognize each other. They are needed beyond loopback addresses.
	CAFile   string `yaml:"ca-file"`
	CertFile string `yaml:"cert-file"`
	KeyFile  string `yaml:"key-file"`
}

// NewCluster returns the defaults.
func NewCluster() *Cluster { return &Cluster{PeerPort: 2380, ClientPort: 2379} }

// UnmarshalYAML is called by the YAML library. It starts from the defaults.
func (c *Cluster) UnmarshalYAML(decode func(any) error) error {
	type plain Cluster // does not have this method
	*c = *NewCluster()
	return decode((*plain)(c))
}

// Own returns the name of the server on a machine with this name, and an error if no member has it.
func (c *Cluster) Own(machine string) (string, error) {
	if c.Name != "" {
		return c.Name, nil
	}
	short, _, _ := strings.Cut(machine, ".")
	for _, name := range slices.Sorted(maps.Keys(c.Members)) {
		host, _ := c.Address(name)
		if name == machine || name == short || host == machine {
			return name, nil
		}
	}
	return "", fmt.Errorf("the machine is called %s, and none of %s: set cluster.name",
		machine, strings.Join(slices.Sorted(maps.Keys(c.Members)), ", "))
}

// Address returns the host of a member and its port for the others.
func (c *Cluster) Address(name string) (host string, peerPort int) {
	host, port, err := net.SplitHostPort(c.Members[name])
	if err != nil {
		return strings.Trim(c.Members[name], "[]"), c.PeerPort
	}
	peerPort, _ = strconv.Atoi(port) // validated
	return host, peerPort
}

var memberName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// cluster validates the settings of a cluster.
func (v *validator) cluster(c *Config) {
	cluster := c.Cluster
	if cluster == nil {
		return
	}
	if len(c.EtcdEndpoints) > 0 {
		v.add("cluster", "cannot be set with etcd-endpoints: the servers either run etcd themselves, or use another one")
	}
	if c.EmbeddedEtcdListen != "" {
		v.add("embedded-etcd-listen", "cannot be set with cluster: etcd listens on cluster.client-port")
	}
	between(v, "cluster.peer-port", cluster.PeerPort, 1, 65535)
	between(v, "cluster.client-port", cluster.ClientPort, 1, 65535)
	if len(cluster.Members) < 2 {
		v.add("cluster.members", "must have at least two members: leave out cluster for a single server")
	}
	if cluster.Name != "" && cluster.Members[cluster.Name] == "" {
		v.add("cluster.name", "%q is not one of cluster.members", cluster.Name)
	}
	if _, err := netip.ParseAddr(cluster.Listen); err != nil && cluster.Listen != "" {
		v.add("cluster.listen", "invalid address %q (want an IP address such as 10.0.0.1 or 0.0.0.0)", cluster.Listen)
	} else if err == nil && cluster.CertFile == "" && !isLoopback(cluster.Listen) {
		v.add("cluster.listen", "other machines can reach this server: set cluster.ca-file, cluster.cert-file and cluster.key-file")
	}
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(cluster.Members)) {
		key := "cluster.members." + name
		if !memberName.MatchString(name) {
			v.add(key, "invalid name %q (want 1 to 63 characters of a-z, 0-9, - and ., with a letter or digit at both ends)", name)
		}
		if err := checkMember(cluster.Members[name]); err != nil {
			v.add(key, "%v", err)
			continue
		}
		host, port := cluster.Address(name)
		if port == cluster.ClientPort {
			v.add(key, "its port for members is client-port (%d)", port)
		}
		address := net.JoinHostPort(host, strconv.Itoa(port))
		if other, ok := taken[address]; ok {
			v.add(key, "has the address %s of %s", address, other)
		}
		taken[address] = name
		if cluster.CertFile == "" && host != "localhost" && !isLoopback(host) {
			v.add(key, "other machines can reach the members: set cluster.ca-file, cluster.cert-file and cluster.key-file")
		}
	}
	files := []setting{{"cluster.ca-file", cluster.CAFile}, {"cluster.cert-file", cluster.CertFile}, {"cluster.key-file", cluster.KeyFile}}
	if cmp.Or(cluster.CAFile, cluster.CertFile, cluster.KeyFile) != "" {
		for _, f := range files {
			if f.value == "" {
				v.add(f.key, "must be set with the other files of cluster")
			}
		}
	}
}

// checkMember validates the address of a member: a host, with an optional port.
func checkMember(address string) error {
	invalid := fmt.Errorf("invalid address %q (want a host such as node-1.example.com or 10.0.0.1, or host:port)", address)
	if err := checkHost(address); err != nil {
		return invalid
	}
	if _, port, err := net.SplitHostPort(address); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return invalid
		}
	}
	return nil
}
