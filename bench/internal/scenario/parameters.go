package scenario

import (
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
	Startup    = "startup"    // all watchers come at once and get the state
	Resume     = "resume"     // all watchers come back at once and have missed a change of each key
	Idle       = "idle"       // nothing is written for a while, then one event
	Lists      = "lists"      // everything is listed, so many times at once as there are watchers
)

// Scenarios are the values of Parameters.Scenario.
var Scenarios = []string{Saturation, Steady, Startup, Resume, Lists, Idle}

// Parameters are what a run is.
type Parameters struct {
	Scenario      string        `json:"scenario"` // one of Scenarios
	Peer          string        `json:"peer"`
	Client        string        `json:"client"`
	Watchers      int           `json:"watchers"`       // 0 only with Steady
	PerConnection int           `json:"per_connection"` // watchers on a connection
	PerStream     int           `json:"per_stream"`     // watches on a stream
	Interest      string        `json:"interest"`
	Groups        int           `json:"groups,omitempty"`       // different labels, or interests
	Bystanders    int           `json:"bystanders,omitempty"`   // watchers besides the others of what nobody writes
	Bystand       string        `json:"bystand,omitempty"`      // what they watch, see load.Bystands
	Keys          int           `json:"keys"`                   // that are written to
	Objects       int           `json:"objects,omitempty"`      // objects besides them that nobody writes
	Window        int           `json:"window,omitempty"`       // changes that fanoutd's window has, which is filled first; 0 is its default, and not filled
	ValueSize     int           `json:"value_size"`             // bytes
	Batch         int           `json:"batch"`                  // events that are written together
	Outstanding   int           `json:"outstanding"`            // writes that are under way at once
	Rate          float64       `json:"rate,omitempty"`         // writes per second; 0 is as fast as they are delivered
	Duration      time.Duration `json:"duration_ns"`            // of what is measured
	PageSize      int           `json:"page_size,omitempty"`    // objects of a page of a list; 0 is as many as the server gives
	Stalled       int           `json:"stalled,omitempty"`      // watchers besides the others who do not read
	Stall         string        `json:"stall,omitempty"`        // how they do not, see load.Stalls
	StallFor      time.Duration `json:"stall_for_ns,omitempty"` // after what time they leave and come again; 0 is never
	Repeat        int           `json:"repeat"`                 // number of the run among those that are alike
}

// Complete fills in what follows from the rest.
func (p *Parameters) Complete() {
	p.Keys = max(p.Keys, p.Batch*p.Outstanding)
	p.ValueSize = max(p.ValueSize, stamp.Size)
	p.PerConnection = min(p.PerConnection, max(p.Watchers, 1))
	if p.Scenario == Lists {
		p.PerConnection, p.Client = 1, load.ClientGRPC // who needs the objects
	}
	if p.Stalled == 0 {
		p.Stall, p.StallFor = "", 0
	}
	if p.Bystanders == 0 {
		p.Bystand = ""
	}
}

// Problem returns what is wrong with the parameters, before anything is started.
func (p *Parameters) Problem() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"per-connection", p.PerConnection}, {"per-stream", p.PerStream}, {"batch", p.Batch}, {"outstanding", p.Outstanding}} {
		if n.value < 1 {
			return fmt.Errorf("%s is %d: at least 1", n.name, n.value)
		}
	}
	if p.Watchers < 0 || p.Watchers == 0 && p.Scenario != Steady {
		return fmt.Errorf("watchers is %d: at least 1, or with %s 0", p.Watchers, Steady)
	}
	if err := p.surroundings(); err != nil {
		return err
	}
	if p.Interest == load.InterestKey && p.Watchers < p.Keys {
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
		if err := p.stalled("").Problem(); err != nil {
			return err
		}
	}
	if p.Bystanders > 0 {
		if err := p.bystanders("").Problem(); err != nil {
			return err
		}
	}
	return p.load("").Problem()
}

// surroundings returns what is wrong with what there is besides those who watch and what
// is written.
func (p *Parameters) surroundings() error {
	switch {
	case p.Bystanders < 0 || p.Objects < 0 || p.Window < 0:
		return fmt.Errorf("%d bystanders, %d objects, a window of %d: none may be negative", p.Bystanders, p.Objects, p.Window)
	case p.Bystanders > 0 && p.Scenario != Saturation && p.Scenario != Steady:
		return fmt.Errorf("bystanders with scenario %s: they stand by while something is written", p.Scenario)
	case p.Bystanders > 0 && p.Peer == "floor":
		return fmt.Errorf("bystanders of the floor, which tells everybody everything")
	case p.Window > 0 && p.Peer != "fanoutd":
		return fmt.Errorf("a window of %s: only fanoutd has one", p.Peer)
	case p.Objects > 0 && p.storm():
		return fmt.Errorf("objects besides the %d of scenario %s", p.Keys, p.Scenario)
	}
	return nil
}

// stalled returns what the process of those who do not read is told.
func (p *Parameters) stalled(address string) load.Config {
	c := p.load(address)
	c.Client, c.Watchers, c.Stall, c.StallFor = load.ClientRaw, p.Stalled, p.Stall, p.StallFor
	c.Connections = (p.Stalled + p.PerConnection - 1) / p.PerConnection
	return c
}

// bystanders returns what the process of those is told whom no change concerns.
func (p *Parameters) bystanders(address string) load.Config {
	c := p.load(address)
	c.Watchers, c.Bystand = p.Bystanders, p.Bystand
	c.Connections = (p.Bystanders + p.PerConnection - 1) / p.PerConnection
	return c
}

// storm reports whether the watchers come when there is something to catch up with.
func (p *Parameters) storm() bool { return p.Scenario == Startup || p.Scenario == Resume }

// load returns what the watching process is told.
func (p *Parameters) load(address string) load.Config {
	protocol, _ := peer.Protocol(p.Peer) // which is checked first
	return load.Config{
		Protocol: protocol, Client: p.Client, Address: address,
		Keys: p.Keys, Watchers: p.Watchers, Connections: (p.Watchers + p.PerConnection - 1) / p.PerConnection,
		PerStream: p.PerStream, Interest: p.Interest, Groups: p.Groups,
		Hold: p.storm() || p.Scenario == Lists, Snapshot: p.Scenario == Startup,
		List: p.Scenario == Lists, PageSize: p.PageSize,
	}
}
