package capacity

import (
	"fmt"
	"math"
	"time"
)

// Node is a machine that runs a server.
type Node struct {
	Cores   int
	Memory  float64 // GiB
	Network float64 // Gbit/s
}

// Load is what watchers want, and what happens.
type Load struct {
	PerConnection int     // watches on a connection
	TLS           bool    // connections have TLS
	Events        float64 // that one watch is told per second
	EventBytes    float64 // on the wire
	Changes       float64 // of all that is cached, per second
	State         float64 // MiB, of all objects
	Snapshot      float64 // MiB, that one watch gets with a RESET
}

// What of a node is planned with. The other half of the processors is for those who come
// back, and for catching up.
const (
	processorShare = 0.5
	memoryShare    = 0.9
	networkShare   = 0.5
)

// window is what the windows of all that is cached take at most, in MiB.
const window = 64

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Held is how many watches a node holds, by what would end first.
type Held struct{ Processors, Memory, Network int }

// Watches returns how many it holds, and what ends first.
func (h Held) Watches() (n int, bound string) {
	switch n = min(h.Processors, h.Memory, h.Network); n {
	case h.Memory:
		return n, "memory"
	case h.Processors:
		return n, "processors"
	}
	return n, "network"
}

// Holds returns how many watches a node holds.
func (c *Constants) Holds(n Node, l Load) Held {
	events := l.Events
	free := memoryShare*n.Memory*gib - c.base(l)
	return Held{
		Processors: int(math.Round(processorShare * float64(n.Cores) / (events * c.delivery(l.PerConnection)))),
		Memory:     max(0, int(free/c.connection(l))) * l.PerConnection,
		Network:    int(math.Round(networkShare * n.Network * 1e9 / 8 / (events * l.EventBytes))),
	}
}

// base is the memory of a server without clients, in bytes.
func (c *Constants) base(l Load) float64 {
	return (c.ServerMemory.Value + c.ObjectMemory.Value*l.State + window) * mib
}

// connection is the memory of a connection with its watches, in bytes.
func (c *Constants) connection(l Load) float64 {
	b := c.ConnectionMemory.Value + c.WatchMemory.Value*float64(l.PerConnection)
	if l.TLS {
		b += c.TLSMemory.Value
	}
	return b * kib
}

// begin is the CPU of a connection that begins, without its watches, in seconds.
func (c *Constants) begin(l Load) float64 {
	b := c.Connect.Value
	if l.TLS {
		b += c.Handshake.Value
	}
	return b / 1e6
}

// Fleet is servers over one etcd cluster, and who watches.
type Fleet struct {
	Load
	Node
	Watches  int
	Replicas int
	Zones    int
	Hosts    int           // addresses from which clients come; 0: each connection has one of its own
	Balance  string        // Random or Least
	Restart  time.Duration // until a process that has ended runs again
}

// How a load balancer chooses a server for a connection.
const (
	Random = "random" // any that is believed to be there
	Least  = "least"  // the one that has the fewest, of those that take connections
)

// Replicas returns how many servers so many watches need in so many zones, if those that
// are left hold all when a zone is gone.
func Replicas(watches, held, zones int) int {
	perZone := int(math.Ceil(float64(watches) / float64(held*(zones-1))))
	return perZone * zones
}

// connections returns how many connections the watches have.
func (f *Fleet) connections() int { return (f.Watches + f.PerConnection - 1) / f.PerConnection }

// Problem returns what is wrong with a fleet, before it is simulated.
func (f *Fleet) Problem() error {
	for _, n := range []struct {
		name  string
		value float64
	}{
		{"watches", float64(f.Watches)},
		{"watches on a connection", float64(f.PerConnection)},
		{"cores", float64(f.Cores)},
		{"memory", f.Memory},
		{"network", f.Network},
		{"events", f.Events},
		{"bytes of an event", f.EventBytes},
		{"changes", f.Changes},
		{"state", f.State},
		{"snapshot", f.Snapshot},
		{"restart", float64(f.Restart)},
	} {
		if !(n.value > 0) || math.IsInf(n.value, 1) {
			return fmt.Errorf("%s: %v, must be above 0", n.name, n.value)
		}
	}
	switch {
	case f.Zones < 2 || f.Replicas < f.Zones || f.Replicas > maxReplicas:
		return fmt.Errorf("%d replicas in %d zones: at least two zones with a replica each, and at most %d replicas", f.Replicas, f.Zones, maxReplicas)
	case f.Hosts < 0 || f.connections() > maxConnections:
		return fmt.Errorf("%d connections from %d addresses: at most %d, and not less than none", f.connections(), f.Hosts, maxConnections)
	case f.Balance != Random && f.Balance != Least:
		return fmt.Errorf("balance %q: %s or %s", f.Balance, Random, Least)
	}
	return nil
}

// What can be simulated.
const (
	maxReplicas    = 10_000
	maxConnections = 20_000_000
)
