package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// The scenarios.
const (
	Saturation = "saturation" // writes as fast as they are delivered
	Steady     = "steady"     // writes at a rate
	Startup    = "startup"    // all watchers connect at once and get the state
	Resume     = "resume"     // all watchers reconnect at once and get a change of each key
	Idle       = "idle"       // no writes except one event at the end
	Lists      = "lists"      // all watchers list all objects at once
	Open       = "open"       // all watches are opened at once, on connections that exist
	Calls      = "calls"      // unary calls as fast as they are answered
	State      = "state"      // many objects and no watchers, and a restart of the front server

	ClusterLoad   = "cluster-load"    // watches at all members of a cluster, and writes at a rate, or none
	ClusterKill   = "cluster-kill"    // watches at one member, while another one is killed
	ClusterOutage = "cluster-outage"  // writers of a cluster, while its leader is killed
	ClusterFanOut = "cluster-fan-out" // writes as fast as they are delivered to watches at all members of a cluster
)

// Scenarios are the values of Parameters.Scenario.
var Scenarios = []string{Saturation, Steady, Startup, Resume, Lists, Idle, Open, Calls, State, ClusterLoad, ClusterKill, ClusterOutage, ClusterFanOut}

// ofClusters are the scenarios of systems with several members.
var ofClusters = []string{ClusterLoad, ClusterKill, ClusterOutage, ClusterFanOut}

// The values of Parameters.Victim.
const (
	VictimLeader   = "leader"
	VictimFollower = "follower"
)

// Parameters describe a run.
type Parameters struct {
	Scenario      string `json:"scenario"` // one of Scenarios
	Peer          string `json:"peer"`
	Client        string `json:"client"`
	Watchers      int    `json:"watchers"`       // 0 only if events are written all the time, or calls are measured
	PerConnection int    `json:"per_connection"` // watchers per connection
	// PerStream is the number of watches per stream of a service for many watches; 0: each watch
	// has a stream of its own, from fanoutd with the method Watch. With NATS, a connection is the
	// stream.
	PerStream     int           `json:"per_stream"`
	Interest      string        `json:"interest"`
	Groups        int           `json:"groups,omitempty"`         // number of distinct labels or interests
	Bystanders    int           `json:"bystanders,omitempty"`     // additional watchers of objects that never change
	Bystand       string        `json:"bystand,omitempty"`        // what the bystanders watch, see load.Bystands
	Keys          int           `json:"keys"`                     // number of keys to write
	Objects       int           `json:"objects,omitempty"`        // additional objects that never change
	Window        int           `json:"window,omitempty"`         // size of fanoutd's window in changes, filled first; 0: the default, not filled
	ValueSize     int           `json:"value_size"`               // bytes
	Batch         int           `json:"batch"`                    // events per write
	Outstanding   int           `json:"outstanding"`              // concurrent writes or calls
	Method        string        `json:"method,omitempty"`         // what is called, one of calls.Methods
	Connections   int           `json:"connections,omitempty"`    // for the calls
	DefaultLimits bool          `json:"default_limits,omitempty"` // fanoutd has its default limits; otherwise none per client
	History       bool          `json:"history,omitempty"`        // fanoutd keeps a history of the writes
	Rate          float64       `json:"rate,omitempty"`           // writes per second; 0: as fast as they are delivered
	Duration      time.Duration `json:"duration_ns"`              // of the measurement
	Writes        int           `json:"writes,omitempty"`         // writes of the measurement, instead of its duration; 0: the duration decides
	State         bool          `json:"state,omitempty"`          // the watches begin with the state, not with the next change
	Bookmarks     time.Duration `json:"bookmarks_ns,omitempty"`   // bookmark interval of the watches; 0: no bookmarks, or what the client has as default
	Reports       time.Duration `json:"reports_ns,omitempty"`     // each watcher reports its position at most this often; 0: never
	PageSize      int           `json:"page_size,omitempty"`      // objects per page; 0: the server decides
	Stalled       int           `json:"stalled,omitempty"`        // additional watchers that do not read
	Stall         string        `json:"stall,omitempty"`          // how they stall, see load.Stalls
	StallFor      time.Duration `json:"stall_for_ns,omitempty"`   // time after which they reconnect; 0: never
	Kills         int           `json:"kills,omitempty"`          // members of a cluster that are killed, one after another
	Victim        string        `json:"victim,omitempty"`         // which of them: VictimLeader or VictimFollower
	Repeat        int           `json:"repeat"`                   // number of the run among equal ones
}

// callConnections is the number of connections for calls, if there are so many calls at once.
const callConnections = 8

// Complete sets the parameters that follow from others.
func (p *Parameters) Complete() {
	if p.Scenario != Calls { // where writes may meet at one key
		p.Keys = max(p.Keys, p.Batch*p.Outstanding)
	}
	p.ValueSize = max(p.ValueSize, stamp.Size)
	p.shareStreams()
	p.PerConnection = min(p.PerConnection, max(p.Watchers, 1))
	if p.Watchers == 0 && p.Interest == load.InterestKey {
		p.Interest = load.InterestAll // the writes are the same
	}
	if p.Scenario == Calls || p.Scenario == State {
		p.Interest, p.Client, p.Watchers = load.InterestAll, load.ClientRaw, 0
	}
	if p.Scenario == Calls {
		p.Connections = min(cmp.Or(p.Connections, callConnections), p.Outstanding)
	}
	if p.Scenario == Lists {
		p.PerConnection, p.Client = 1, load.ClientGRPC // it reads the objects
	}
	if p.Stalled == 0 {
		p.Stall, p.StallFor = "", 0
	}
	if p.Bystanders == 0 {
		p.Bystand = ""
	}
}

// shareStreams sets what follows from the number of watches per stream. A stream is part of a
// connection, and in NATS it is the connection.
func (p *Parameters) shareStreams() {
	protocol, _ := peer.Protocol(p.Peer) // Validate reports the error
	p.PerConnection = max(p.PerConnection, p.PerStream)
	switch {
	case protocol == "etcd" && p.PerStream == 1: // the same method
		p.PerStream = 0
	case (p.Peer == "nats" || p.Peer == "nats-kv") && p.PerStream > 0:
		p.PerConnection, p.PerStream = p.PerStream, 0
	case p.Watchers == 0:
		p.PerStream = 0
	}
}

// Validate returns what is wrong with the parameters. Call it before the run.
func (p *Parameters) Validate() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"per-connection", p.PerConnection}, {"batch", p.Batch}, {"outstanding", p.Outstanding}} {
		if n.value < 1 {
			return fmt.Errorf("%s is %d: at least 1", n.name, n.value)
		}
	}
	if p.Scenario == Calls || p.Scenario == State {
		return p.withoutWatchers()
	}
	if slices.Contains(ofClusters, p.Scenario) {
		return p.ofCluster()
	}
	if p.Kills != 0 || p.Victim != "" {
		return fmt.Errorf("scenario %s with %d kills of a %q: only scenarios of clusters kill", p.Scenario, p.Kills, p.Victim)
	}
	if p.Method != "" || p.Connections != 0 {
		return fmt.Errorf("scenario %s with calls of %q on %d connections: only %s makes calls", p.Scenario, p.Method, p.Connections, Calls)
	}
	if p.Watchers < 0 || p.Watchers == 0 && !p.writing() {
		return fmt.Errorf("watchers is %d: at least 1, or with %s and %s 0", p.Watchers, Saturation, Steady)
	}
	if p.Writes < 0 || p.Writes > 0 && !p.writing() {
		return fmt.Errorf("%d writes: only %s and %s write all the time", p.Writes, Saturation, Steady)
	}
	if p.State && p.Scenario != Idle && p.Scenario != Open {
		return fmt.Errorf("watches of scenario %s that begin with the state: only those of %s and %s", p.Scenario, Idle, Open)
	}
	if p.Peer == "floor" && (p.PerStream > 0 || p.Client == load.ClientFanoutd) {
		return errors.New("the floor has a stream for each watch, and one client: " + load.ClientRaw)
	}
	if err := p.surroundings(); err != nil {
		return err
	}
	if p.Interest == load.InterestKey && p.Watchers > 0 && p.Watchers < p.Keys {
		return fmt.Errorf("%d keys for %d watchers of one key each: every key needs one", p.Keys, p.Watchers)
	}
	if !slices.Contains(Scenarios, p.Scenario) {
		return fmt.Errorf("scenario %q: one of %s", p.Scenario, strings.Join(Scenarios, ", "))
	}
	if (p.Scenario == Steady) != (p.Rate > 0) {
		return fmt.Errorf("scenario %s at a rate of %v: steady has a rate, and no other", p.Scenario, p.Rate)
	}
	if p.Rate < 0 || p.Duration <= 0 {
		return fmt.Errorf("a rate of %v for %v: none may be negative, and the time not zero", p.Rate, p.Duration)
	}
	if _, err := peer.Protocol(p.Peer); err != nil {
		return err
	}
	if p.Stalled > 0 {
		if err := p.stalled("").Validate(); err != nil {
			return err
		}
	}
	if p.Bystanders > 0 {
		if err := p.bystanders("").Validate(); err != nil {
			return err
		}
	}
	return p.load("").Validate()
}

// withoutWatchers returns what is wrong with the parameters of scenarios Calls and State.
func (p *Parameters) withoutWatchers() error {
	switch {
	case p.Watchers > 0 || p.Bystanders > 0 || p.Stalled > 0 || p.Batch != 1 || p.Rate != 0 || p.Writes != 0 || p.Duration <= 0:
		return fmt.Errorf("scenario %s has no watchers and no other writes, and some time", p.Scenario)
	case p.Scenario == State && (p.Method != "" || p.Keys < 1):
		return fmt.Errorf("%d objects and calls of %q: scenario %s has at least one object, and no calls", p.Keys, p.Method, State)
	case p.Scenario == State && !slices.Contains(states, p.Peer):
		return fmt.Errorf("scenario %s of %s: one of %s", State, p.Peer, strings.Join(states, ", "))
	case p.Scenario == State:
		return nil
	}
	if _, err := peer.Protocol(p.Peer); err != nil {
		return err
	}
	return p.calls("").Validate()
}

// ofCluster returns what is wrong with the parameters of a scenario of clusters.
func (p *Parameters) ofCluster() error {
	kills := p.Scenario == ClusterKill || p.Scenario == ClusterOutage
	switch {
	case !slices.Contains(peer.Clusters, p.Peer):
		return fmt.Errorf("scenario %s of %s: one of %s", p.Scenario, p.Peer, strings.Join(peer.Clusters, ", "))
	case p.Scenario == ClusterKill && p.Peer != peer.FanoutdCluster:
		return fmt.Errorf("scenario %s of %s: only %s", p.Scenario, p.Peer, peer.FanoutdCluster)
	case p.Kills < 0 || kills != (p.Kills > 0) || kills != (p.Victim == VictimLeader || p.Victim == VictimFollower):
		return fmt.Errorf("scenario %s with %d kills of a %q: %s and %s have some, of a %s or a %s, and no other",
			p.Scenario, p.Kills, p.Victim, ClusterKill, ClusterOutage, VictimLeader, VictimFollower)
	case p.Batch != 1 || p.Stalled > 0 || p.Bystanders > 0 || p.Objects > 0 || p.Window > 0 || p.Writes > 0 || p.State || p.Method != "":
		return fmt.Errorf("scenario %s: it has nothing besides watches and writes of one event", p.Scenario)
	case p.Rate < 0 || p.Duration <= 0 || p.Scenario == ClusterKill && p.Rate == 0 || p.Rate > 0 && (p.Scenario == ClusterOutage || p.Scenario == ClusterFanOut):
		return fmt.Errorf("scenario %s at a rate of %v for %v: %s has a rate, and %s and %s have none", p.Scenario, p.Rate, p.Duration, ClusterKill, ClusterOutage, ClusterFanOut)
	case p.Scenario == ClusterOutage && p.Watchers != 0:
		return fmt.Errorf("scenario %s has no watchers", p.Scenario)
	case p.Scenario == ClusterKill && (p.Interest != load.InterestKey || p.Watchers != p.Keys):
		return fmt.Errorf("scenario %s: each key has one watch", p.Scenario)
	case p.Scenario == ClusterOutage || p.Scenario == ClusterKill:
		return nil
	}
	for i := range members {
		c := p.share(i, "")
		if c.Watchers < 1 || c.Interest == load.InterestKey && c.Watchers < c.Keys {
			return fmt.Errorf("%d watches of %d keys at %d members: each member needs one of each key", p.Watchers, p.Keys, members)
		}
		if err := c.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// members is the number of members of a cluster.
const members = 3

// share returns the configuration of the watchers at a member. They are spread evenly over the members.
func (p *Parameters) share(member int, address string) load.Config {
	q := *p
	q.Watchers = (member+1)*p.Watchers/members - member*p.Watchers/members
	return q.load(address)
}

// states are the systems with a state that they have after a restart, too.
var states = []string{"etcd", "etcd-embedded", "fanoutd", "fanoutd-embedded", "nats-kv"}

// surroundings returns what is wrong with the bystanders, the additional objects and the
// window.
func (p *Parameters) surroundings() error {
	switch {
	case p.Bystanders < 0 || p.Objects < 0 || p.Window < 0:
		return fmt.Errorf("%d bystanders, %d objects, a window of %d: none may be negative", p.Bystanders, p.Objects, p.Window)
	case p.Bystanders > 0 && !p.writing():
		return fmt.Errorf("bystanders need a scenario that writes, not %s", p.Scenario)
	case p.Bystanders > 0 && p.Peer == "floor":
		return fmt.Errorf("bystanders of the floor: it sends everything to all watchers")
	case p.DefaultLimits && !strings.HasPrefix(p.Peer, "fanoutd"):
		return fmt.Errorf("default limits of %s: only fanoutd has some", p.Peer)
	case p.History && !strings.HasPrefix(p.Peer, "fanoutd"):
		return fmt.Errorf("a history of %s: only fanoutd has one", p.Peer)
	case p.Window > 0 && p.Peer != "fanoutd":
		return fmt.Errorf("a window of %s: only fanoutd has one", p.Peer)
	case p.Objects > 0 && p.storm():
		return fmt.Errorf("objects besides the %d of scenario %s", p.Keys, p.Scenario)
	}
	return nil
}

// stalled returns the configuration of the watchers that do not read.
func (p *Parameters) stalled(address string) load.Config {
	c := p.load(address)
	c.Client, c.Watchers, c.Stall, c.StallFor = load.ClientRaw, p.Stalled, p.Stall, p.StallFor
	c.Connections = (p.Stalled + p.PerConnection - 1) / p.PerConnection
	return c
}

// bystanders returns the configuration of the bystanders.
func (p *Parameters) bystanders(address string) load.Config {
	c := p.load(address)
	c.Watchers, c.Bystand = p.Bystanders, p.Bystand
	c.Connections = (p.Bystanders + p.PerConnection - 1) / p.PerConnection
	return c
}

// writing reports whether events are written during the whole measurement.
func (p *Parameters) writing() bool { return p.Scenario == Saturation || p.Scenario == Steady }

// storm reports whether the watchers connect when there is something to catch up with.
func (p *Parameters) storm() bool { return p.Scenario == Startup || p.Scenario == Resume }

// load returns the configuration of the watchers.
func (p *Parameters) load(address string) load.Config {
	protocol, _ := peer.Protocol(p.Peer) // checked before
	return load.Config{
		Protocol: protocol, Client: p.Client, Address: address,
		Keys: p.Keys, Watchers: p.Watchers, Connections: (p.Watchers + p.PerConnection - 1) / p.PerConnection,
		PerStream: p.PerStream, Interest: p.Interest, Groups: p.Groups,
		Bookmarks: p.Bookmarks, Reports: p.Reports,
		Hold: p.storm() || p.Scenario == Lists || p.Scenario == Open, Snapshot: p.State || p.Scenario == Startup,
		List: p.Scenario == Lists, PageSize: p.PageSize,
	}
}
