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

// Load describes the watches and the changes.
type Load struct {
	PerConnection int     // watches per connection
	TLS           bool    // connections use TLS
	Events        float64 // per second and watch
	EventBytes    float64 // on the wire
	Changes       float64 // per second, of all cached resources
	State         float64 // MiB, of all objects
	Snapshot      float64 // MiB, of the RESET of one watch
}

// The share of a node that is planned for normal operation. The rest of the processors is
// for reconnecting clients and catch-ups.
const (
	processorShare = 0.5
	memoryShare    = 0.9
	networkShare   = 0.5
)

// The memory limits of the windows and of the logs of all cached resources, in MiB.
const (
	window = 64
	log    = 64
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// NodeCapacity is the number of watches that each resource of a node allows.
type NodeCapacity struct{ Processors, Memory, Network int }

// Watches returns the number of watches that the node holds, and the resource that limits it.
func (h NodeCapacity) Watches() (n int, bound string) {
	switch n = min(h.Processors, h.Memory, h.Network); n {
	case h.Memory:
		return n, "memory"
	case h.Processors:
		return n, "processors"
	}
	return n, "network"
}

// NodeCapacity calculates how many watches a node holds.
func (c *Constants) NodeCapacity(n Node, l Load) NodeCapacity {
	events := l.Events
	free := memoryShare*n.Memory*gib - c.baseMemory(l)
	return NodeCapacity{
		Processors: int(math.Round(processorShare * float64(n.Cores) / (events * c.deliveryCPU(l.PerConnection)))),
		Memory:     max(0, int(free/c.connectionMemory(l))) * l.PerConnection,
		Network:    int(math.Round(networkShare * n.Network * 1e9 / 8 / (events * l.EventBytes))),
	}
}

// baseMemory is the memory of a server without clients, in bytes.
func (c *Constants) baseMemory(l Load) float64 {
	return (c.ServerMemory.Value + c.ObjectMemory.Value*l.State + window + log) * mib
}

// connectionMemory is the memory of a connection with its watches, in bytes.
func (c *Constants) connectionMemory(l Load) float64 {
	b := c.ConnectionMemory.Value + c.WatchMemory.Value*float64(l.PerConnection)
	if l.TLS {
		b += c.TLSMemory.Value
	}
	return b * kib
}

// connectCPU is the CPU time to open a connection without its watches, in seconds.
func (c *Constants) connectCPU(l Load) float64 {
	b := c.Connect.Value
	if l.TLS {
		b += c.Handshake.Value
	}
	return b / 1e6
}

// Fleet is a set of servers over one etcd cluster, and their watches.
type Fleet struct {
	Load
	Node
	Watches  int
	Replicas int
	Zones    int
	Hosts    int           // client addresses; 0: one per connection
	Balance  string        // Random or Least
	Restart  time.Duration // time until a failed process runs again
}

// The values of Fleet.Balance: how the load balancer chooses a server.
const (
	Random = "random" // any server that the load balancer believes to be up
	Least  = "least"  // the server with the fewest connections
)

// Replicas returns the number of servers for a number of watches, if each server holds
// perServer of them. When a zone fails, the remaining servers hold all watches.
func Replicas(watches, perServer, zones int) int {
	perZone := int(math.Ceil(float64(watches) / float64(perServer*(zones-1))))
	return perZone * zones
}

// connections returns the number of connections of all watches.
func (f *Fleet) connections() int { return (f.Watches + f.PerConnection - 1) / f.PerConnection }

// Validate returns what is wrong with a fleet. Call it before the simulation.
func (f *Fleet) Validate() error {
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
			return fmt.Errorf("%s is %v, want more than 0", n.name, n.value)
		}
	}
	switch {
	case f.Zones < 2 || f.Replicas < f.Zones || f.Replicas > maxReplicas:
		return fmt.Errorf("%d replicas in %d zones: want two or more zones, a replica or more in each, and at most %d replicas", f.Replicas, f.Zones, maxReplicas)
	case f.Hosts < 0 || f.connections() > maxConnections:
		return fmt.Errorf("%d connections from %d addresses: want at most %d connections, and 0 or more addresses", f.connections(), f.Hosts, maxConnections)
	case f.Balance != Random && f.Balance != Least:
		return fmt.Errorf("unknown balance %q (want %s or %s)", f.Balance, Random, Least)
	}
	return nil
}

// Limits of the simulation.
const (
	maxReplicas    = 10_000
	maxConnections = 20_000_000
)
