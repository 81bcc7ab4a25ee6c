package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// programs are what the tests start.
var programs peer.Programs

// TestMain lets the processes that a benchmark starts of itself be this program, too.
func TestMain(m *testing.M) {
	for _, c := range processes() {
		if len(os.Args) > 1 && os.Args[1] == c.Name() {
			main()
			return
		}
	}
	os.Exit(test(m))
}

func test(m *testing.M) int {
	b := binaries{source: filepath.Join("..", "..", "..")}
	var err error
	if programs, err = b.programs(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer b.remove()
	return m.Run()
}

func small(name, client string) scenario.Parameters {
	return scenario.Parameters{
		Scenario: "saturation", Peer: name, Client: client,
		Watchers: 10, PerConnection: 4, PerStream: 1, Interest: load.InterestAll, Groups: 2,
		Keys: 8, ValueSize: 256, Batch: 2, Outstanding: 2, Duration: 200 * time.Millisecond,
	}
}

// Every peer can be measured with every client, and all that is written arrives at all
// who wait for it, once.
func TestEveryPeer(t *testing.T) {
	grpc := []string{load.ClientRaw, load.ClientGRPC, load.ClientGRPCDefault}
	clients := map[string][]string{
		"fanoutd": grpc, "etcd": grpc, "grpc-proxy": {load.ClientRaw}, "floor": {load.ClientRaw},
		"nats": {load.ClientRaw}, "nats-kv": {load.ClientNATS},
	}
	var cases []scenario.Parameters
	for _, name := range peer.Names() {
		if len(clients[name]) == 0 {
			t.Errorf("%s is not tested", name)
		}
		for _, client := range clients[name] {
			cases = append(cases, small(name, client))
		}
	}
	several := small("etcd", load.ClientRaw)
	several.PerStream = 3
	cases = append(cases, several)
	for _, name := range []string{"fanoutd", "nats", "nats-kv"} {
		for _, interest := range []string{load.InterestKey, load.InterestLabel} {
			p := small(name, clients[name][0])
			p.Interest = interest
			cases = append(cases, p)
		}
	}
	paced := small("fanoutd", load.ClientRaw)
	paced.Scenario, paced.Rate = scenario.Steady, 100
	cases = append(cases, paced)
	for _, p := range cases {
		t.Run(fmt.Sprintf("%s %s %s", report.Who(p), p.Interest, report.Case(p)), func(t *testing.T) {
			t.Parallel()
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected {
				t.Errorf("%s; %d of %d received; %s %s", wrong, r.Counts.Received, r.Expected, r.Reason, r.Stalled)
			}
			if r.Deliveries < 1 || r.Deliveries >= r.Expected || r.Each.Count != r.Deliveries || r.Last.Count == 0 || r.Ack.Count == 0 {
				t.Errorf("what was measured is not there: %+v", r)
			}
			// The server must have written at least what was delivered.
			front := r.Servers[len(r.Servers)-1]
			if front.Bytes < float64(p.ValueSize) || front.Writes == 0 {
				t.Errorf("%s has written %v bytes in %v calls per delivery of %d", front.Name, front.Bytes, front.Writes, p.ValueSize)
			}
			if !slices.Contains([]string{p.Peer, "nats-server"}, front.Name) {
				t.Errorf("in front is %s", front.Name)
			}
		})
	}
}

// Watchers who come at once get all of the state, or all that they have missed.
func TestStorms(t *testing.T) {
	for _, c := range []struct{ peer, client, scenario string }{
		{"fanoutd", load.ClientRaw, scenario.Startup},
		{"fanoutd", load.ClientGRPC, scenario.Startup},
		{"fanoutd", load.ClientRaw, scenario.Resume},
		{"fanoutd", load.ClientGRPC, scenario.Resume},
		{"floor", load.ClientRaw, scenario.Startup},
		{"etcd", load.ClientRaw, scenario.Startup},
		{"etcd", load.ClientRaw, scenario.Resume},
		{"grpc-proxy", load.ClientRaw, scenario.Startup},
		{"nats-kv", load.ClientNATS, scenario.Startup},
		{"nats-kv", load.ClientNATS, scenario.Resume},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.scenario, c.peer, c.client), func(t *testing.T) {
			t.Parallel()
			p := small(c.peer, c.client)
			p.Scenario, p.Keys = c.scenario, 200 // more than one transaction
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(p.Keys * p.Watchers); r.Counts.Received != want || r.Expected != want || r.Counts.Lost+r.Counts.Duplicate+r.Counts.OutOfOrder > 0 {
				t.Errorf("%+v of %d, expected %d; %s %s", r.Counts, want, r.Expected, r.Reason, r.Stalled)
			}
		})
	}
}

// A list has everything, in one piece and in pages; those that do not have it fail.
func TestLists(t *testing.T) {
	for _, name := range []string{"fanoutd", "etcd", "grpc-proxy"} {
		for _, size := range []int{0, 7, 200} {
			t.Run(fmt.Sprintf("%s %d", name, size), func(t *testing.T) {
				t.Parallel()
				p := small(name, load.ClientGRPC)
				p.Scenario, p.Keys, p.PageSize = scenario.Lists, 200, size
				r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
				if err != nil {
					t.Fatal(err)
				}
				if r.Deliveries == 0 || r.Deliveries != r.Expected || r.Deliveries%int64(p.Watchers) != 0 {
					t.Errorf("%d lists by %d, expected %d", r.Deliveries, p.Watchers, r.Expected)
				}
			})
		}
	}
}

// One event comes to all, and nothing of those who have left stays.
func TestIdle(t *testing.T) {
	for _, name := range []string{"fanoutd", "etcd", "nats"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := small(name, load.ClientRaw)
			p.Scenario, p.Watchers = scenario.Idle, 200
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(p.Watchers * p.Batch); r.Deliveries != want || r.Counts.Received != want || r.Expected != want {
				t.Errorf("%d deliveries, %+v, expected %d: want %d", r.Deliveries, r.Counts, r.Expected, want)
			}
			front := r.Servers[len(r.Servers)-1]
			if told := front.Goroutines > 0; told != (name != "nats") || front.GoroutinesLeft > 20 || front.RSSLeft == 0 {
				t.Errorf("%+v", front)
			}
		})
	}
}

// The floor has no history, so it cannot resume watches.
func TestTheFloorRemembersNothing(t *testing.T) {
	p := small("floor", load.ClientRaw)
	p.Scenario = scenario.Resume
	if _, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}}); err == nil {
		t.Error("the floor resumed watches, want an error")
	}
}

// Watchers who do not read cost the others nothing, however they do not; those who come
// again do.
func TestStalledWatchers(t *testing.T) {
	for _, p := range []scenario.Parameters{
		{Stall: load.StallFrozen},
		{Stall: load.StallWindow},
		{Stall: load.StallFrozen, StallFor: 50 * time.Millisecond},
		{Stall: load.StallWindow, StallFor: 50 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%s %s", p.Stall, p.StallFor), func(t *testing.T) {
			t.Parallel()
			run := small("fanoutd", load.ClientRaw)
			run.Stalled, run.Stall, run.StallFor, run.ValueSize = 10, p.Stall, p.StallFor, 10_000
			r, err := scenario.Run(t.Context(), programs, run, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected {
				t.Errorf("%s; %d of %d received; %s %s", wrong, r.Counts.Received, r.Expected, r.Reason, r.Stalled)
			}
			if came := r.Returned > 0; came != (p.StallFor > 0) {
				t.Errorf("%d have come again", r.Returned)
			}
		})
	}
}

// Bystanders get no events, and do not keep the watchers from theirs.
func TestBystanders(t *testing.T) {
	for _, c := range []struct{ peer, bystand string }{
		{"fanoutd", load.BystandKey},
		{"fanoutd", load.BystandOne},
		{"fanoutd", load.BystandSelector},
		{"etcd", load.BystandKey},
		{"etcd", load.BystandOne},
		{"nats", load.BystandKey},
	} {
		t.Run(c.peer+" "+c.bystand, func(t *testing.T) {
			t.Parallel()
			p := small(c.peer, load.ClientRaw)
			p.Bystanders, p.Bystand, p.Objects = 50, c.bystand, 20
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected || r.Deliveries == 0 {
				t.Errorf("%s; %d of %d received; %s %s", wrong, r.Counts.Received, r.Expected, r.Reason, r.Stalled)
			}
			if want := r.Deliveries / int64(p.Watchers); r.Changes != want {
				t.Errorf("%d changes were measured, and %d came to each", r.Changes, want)
			}
		})
	}
}

// Watchers do not get earlier writes, unless they ask for the state: then they get all of it.
func TestWithAFullWindow(t *testing.T) {
	for _, name := range scenario.Scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := small("fanoutd", load.ClientRaw)
			p.Scenario, p.Window, p.Keys = name, 1000, 130 // more than one transaction
			if name == scenario.Steady {
				p.Rate = 50
			}
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected || r.Deliveries == 0 {
				t.Errorf("%s; %d of %d received; %s %s", wrong, r.Counts.Received, r.Expected, r.Reason, r.Stalled)
			}
		})
	}
}

// Distinct interests that cover the same keys get the same events.
func TestInterestsOfTheirOwn(t *testing.T) {
	p := small("fanoutd", load.ClientRaw)
	p.Interest, p.Groups = load.InterestExcept, 5
	r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected || r.Deliveries == 0 {
		t.Errorf("%s; %d of %d received; %s %s", wrong, r.Counts.Received, r.Expected, r.Reason, r.Stalled)
	}
}

// The one who writes can be measured without anybody who watches.
func TestNoWatchers(t *testing.T) {
	p := small("fanoutd", load.ClientRaw)
	p.Scenario, p.Rate, p.Watchers = scenario.Steady, 100, 0
	r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Ack.Count == 0 || r.Expected != 0 || r.Stalled != "" {
		t.Errorf("%+v", r)
	}
}

// What makes no sense is said before anything is started.
func TestBadParameters(t *testing.T) {
	for name, change := range map[string]func(*scenario.Parameters){
		"no watchers":           func(p *scenario.Parameters) { p.Watchers = 0 },
		"no batch":              func(p *scenario.Parameters) { p.Batch = 0 },
		"unknown peer":          func(p *scenario.Parameters) { p.Peer = "kafka" },
		"no such interest":      func(p *scenario.Parameters) { p.Interest = "none" },
		"keys without one":      func(p *scenario.Parameters) { p.Interest, p.Keys = load.InterestKey, 100 },
		"negative rate":         func(p *scenario.Parameters) { p.Rate = -1 },
		"state of nats":         func(p *scenario.Parameters) { p.Peer, p.Scenario = "nats", scenario.Startup },
		"list of nats":          func(p *scenario.Parameters) { p.Peer, p.Scenario = "nats", scenario.Lists },
		"steady without a rate": func(p *scenario.Parameters) { p.Scenario = scenario.Steady },
		"unknown scenario":      func(p *scenario.Parameters) { p.Scenario = "party" },
		"unknown stall":         func(p *scenario.Parameters) { p.Stalled, p.Stall = 1, "yes" },
		"nats has no window":    func(p *scenario.Parameters) { p.Peer, p.Stalled, p.Stall = "nats", 1, load.StallWindow },
		"client of another":     func(p *scenario.Parameters) { p.Client = load.ClientNATS },
		"unknown bystanders":    func(p *scenario.Parameters) { p.Bystanders, p.Bystand = 1, "yes" },
		"selectors of etcd":     func(p *scenario.Parameters) { p.Peer, p.Bystanders, p.Bystand = "etcd", 1, load.BystandSelector },
		"floor tells all":       func(p *scenario.Parameters) { p.Peer, p.Bystanders, p.Bystand = "floor", 1, load.BystandKey },
		"bystanders of a list":  func(p *scenario.Parameters) { p.Scenario, p.Bystanders, p.Bystand = scenario.Lists, 1, load.BystandKey },
		"window of etcd":        func(p *scenario.Parameters) { p.Peer, p.Window = "etcd", 10 },
		"less than no objects":  func(p *scenario.Parameters) { p.Objects = -1 },
		"interests of etcd":     func(p *scenario.Parameters) { p.Peer, p.Interest = "etcd", load.InterestExcept },
		"more of a storm":       func(p *scenario.Parameters) { p.Scenario, p.Objects = scenario.Startup, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			p := small("fanoutd", load.ClientRaw)
			change(&p)
			phases := 0
			_, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) { phases++ }})
			if err == nil || phases > 0 {
				t.Errorf("after %d phases: %v", phases, err)
			}
		})
	}
}
