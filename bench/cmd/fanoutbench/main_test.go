package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/calls"
	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// programs are the binaries that the tests start.
var programs peer.Programs

// TestMain makes the test binary act as fanoutbench for the processes that benchmarks start.
func TestMain(m *testing.M) {
	for _, c := range processes() {
		if len(os.Args) > 1 && os.Args[1] == c.Name() {
			main()
			return
		}
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	b := binaries{source: filepath.Join("..", "..", "..")}
	var err error
	if programs, err = b.programs(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer b.remove()
	return m.Run()
}

// smallRun returns the parameters of a short run with few watchers.
func smallRun(name, client string) scenario.Parameters {
	return scenario.Parameters{
		Scenario: "saturation", Peer: name, Client: client,
		Watchers: 10, PerConnection: 4, Interest: load.InterestAll, Groups: 2,
		Keys: 8, ValueSize: 256, Batch: 2, Outstanding: 2, Duration: 200 * time.Millisecond,
	}
}

// Every watcher receives each event of its interest once, with every client of every peer.
func TestPeersDeliverAllEvents(t *testing.T) {
	grpc := []string{load.ClientRaw, load.ClientGRPC, load.ClientGRPCDefault}
	clients := map[string][]string{
		"fanoutd": append(grpc, load.ClientFanoutd), "etcd": grpc, "grpc-proxy": {load.ClientRaw}, "floor": {load.ClientRaw},
		"nats": {load.ClientRaw}, "nats-kv": {load.ClientNATS},
		"fanoutd-embedded": {load.ClientRaw}, "etcd-embedded": {load.ClientRaw},
		peer.FanoutdCluster: {load.ClientRaw}, peer.FanoutdsBeforeEtcds: {load.ClientRaw}, peer.EtcdCluster: {load.ClientRaw},
	}
	var cases []scenario.Parameters
	for _, name := range peer.Names() {
		if name == "grpc" { // only calls
			continue
		}
		if len(clients[name]) == 0 {
			t.Errorf("peer %s has no client in this test", name)
		}
		for _, client := range clients[name] {
			cases = append(cases, smallRun(name, client))
		}
	}
	for _, several := range []struct {
		peer, client string
		perStream    int
	}{
		{"etcd", load.ClientRaw, 3},
		{"nats", load.ClientRaw, 3},
		{"fanoutd", load.ClientGRPC, 3},
		{"fanoutd", load.ClientRaw, 3},
		{"fanoutd", load.ClientRaw, 1},
	} {
		p := smallRun(several.peer, several.client)
		p.PerStream = several.perStream
		cases = append(cases, p)
	}
	keys := smallRun("fanoutd", load.ClientRaw)
	keys.PerStream, keys.Interest = 3, load.InterestKey
	bookmarks := keys
	bookmarks.Bookmarks = 100 * time.Millisecond
	numbered := keys
	numbered.Writes = 100
	cases = append(cases, keys, bookmarks, numbered)
	for _, name := range []string{"fanoutd", "nats", "nats-kv"} {
		for _, interest := range []string{load.InterestKey, load.InterestLabel} {
			p := smallRun(name, clients[name][0])
			p.Interest = interest
			cases = append(cases, p)
		}
	}
	paced := smallRun("fanoutd", load.ClientRaw)
	paced.Scenario, paced.Rate = scenario.Steady, 100
	cases = append(cases, paced)
	for _, p := range cases {
		t.Run(fmt.Sprintf("%s %s %s", report.System(p), p.Interest, report.Case(p)), func(t *testing.T) {
			t.Parallel()
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected {
				t.Errorf("got %d deliveries, want %d; wrong %q, reason %q, stalled %q", r.Counts.Received, r.Expected, wrong, r.Reason, r.Stalled)
			}
			if r.Deliveries < 1 || r.Deliveries >= r.Expected || r.Each.Count != r.Deliveries || r.Last.Count == 0 || r.Ack.Count == 0 {
				t.Errorf("got incomplete measurements: %+v", r)
			}
			// The server must have written at least what was delivered.
			front := r.Servers[len(r.Servers)-1]
			if p.Peer == "nats" {
				p.PerStream = 0
			}
			least := float64(p.ValueSize / max(p.PerStream, 1)) // watches of a stream may share a value
			if p.Client == load.ClientFanoutd {
				least /= float64(p.Watchers) // the client decides how many share a stream
			}
			if front.Bytes < least || front.Writes == 0 {
				t.Errorf("got %v bytes in %v writes of %s per delivery, want at least %v bytes", front.Bytes, front.Writes, front.Name, least)
			}
			if want := frontName(p.Peer); front.Name != want {
				t.Errorf("got server %s in front, want %s", front.Name, want)
			}
		})
	}
}

// frontName returns the name of the process that watchers of a system connect to.
func frontName(system string) string {
	switch system {
	case "nats", "nats-kv":
		return "nats-server"
	case peer.FanoutdCluster, peer.FanoutdsBeforeEtcds:
		return "fanoutd-3"
	case peer.EtcdCluster:
		return "etcd-3"
	}
	return system
}

// Watchers that connect at once receive the whole state, or all events that they missed.
func TestWatchersConnectAtOnce(t *testing.T) {
	for _, c := range []struct{ peer, client, scenario string }{
		{"fanoutd", load.ClientRaw, scenario.Startup},
		{"fanoutd", load.ClientGRPC, scenario.Startup},
		{"fanoutd", load.ClientRaw, scenario.Resume},
		{"fanoutd", load.ClientGRPC, scenario.Resume},
		{"fanoutd", load.ClientFanoutd, scenario.Startup},
		{"fanoutd", load.ClientFanoutd, scenario.Resume},
		{"floor", load.ClientRaw, scenario.Startup},
		{"etcd", load.ClientRaw, scenario.Startup},
		{"etcd", load.ClientRaw, scenario.Resume},
		{"grpc-proxy", load.ClientRaw, scenario.Startup},
		{"nats-kv", load.ClientNATS, scenario.Startup},
		{"nats-kv", load.ClientNATS, scenario.Resume},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.scenario, c.peer, c.client), func(t *testing.T) {
			t.Parallel()
			p := smallRun(c.peer, c.client)
			p.Scenario, p.Keys = c.scenario, 200 // more than one transaction
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(p.Keys * p.Watchers); r.Counts.Received != want || r.Expected != want || r.Counts.Lost+r.Counts.Duplicate+r.Counts.OutOfOrder > 0 {
				t.Errorf("got %+v and %d expected deliveries, want %d received; reason %q, stalled %q", r.Counts, r.Expected, want, r.Reason, r.Stalled)
			}
		})
	}
}

// Lists return all objects, with and without pages. A list with fewer objects is an error of
// the run.
func TestListsReturnAllObjects(t *testing.T) {
	for _, name := range []string{"fanoutd", "etcd", "grpc-proxy"} {
		for _, size := range []int{0, 7, 200} {
			t.Run(fmt.Sprintf("%s %d", name, size), func(t *testing.T) {
				t.Parallel()
				p := smallRun(name, load.ClientGRPC)
				p.Scenario, p.Keys, p.PageSize = scenario.Lists, 200, size
				r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
				if err != nil {
					t.Fatal(err)
				}
				if r.Deliveries == 0 || r.Deliveries != r.Expected || r.Deliveries%int64(p.Watchers) != 0 {
					t.Errorf("got %d lists by %d watchers, want %d, the same number by each", r.Deliveries, p.Watchers, r.Expected)
				}
			})
		}
	}
}

// One event reaches all idle watchers, and no goroutines remain after they disconnect.
func TestIdleWatchersReceiveAnEventAndLeaveNothing(t *testing.T) {
	for _, c := range []struct {
		peer, client string
		perStream    int
	}{
		{"fanoutd", load.ClientRaw, 0},
		{"fanoutd", load.ClientRaw, 50},
		{"fanoutd", load.ClientFanoutd, 0},
		{"etcd", load.ClientRaw, 0},
		{"etcd", load.ClientRaw, 50},
		{"nats", load.ClientRaw, 0},
	} {
		t.Run(fmt.Sprintf("%s %s %d", c.peer, c.client, c.perStream), func(t *testing.T) {
			t.Parallel()
			p := smallRun(c.peer, c.client)
			p.Scenario, p.Watchers, p.PerStream = scenario.Idle, 200, c.perStream
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(p.Watchers * p.Batch); r.Deliveries != want || r.Counts.Received != want || r.Expected != want {
				t.Errorf("got %d deliveries, %+v and %d expected deliveries, want %d", r.Deliveries, r.Counts, r.Expected, want)
			}
			front := r.Servers[len(r.Servers)-1]
			if reported := front.Goroutines > 0; reported != (c.peer != "nats") || front.GoroutinesLeft > 20 || front.RSSLeft == 0 {
				t.Errorf("got %+v, want goroutines unless the server is NATS, and at most 20 of them at the end", front)
			}
			if front.WatchesLeft > 0 || front.Peak < front.RSSIdle {
				t.Errorf("got %+v, want no watches at the end, and a peak", front)
			}
		})
	}
}

// The floor has no history, so it cannot resume watches.
func TestFloorCannotResume(t *testing.T) {
	p := smallRun("floor", load.ClientRaw)
	p.Scenario = scenario.Resume
	if _, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}}); err == nil {
		t.Error("the floor resumed watches, want an error")
	}
}

// Watchers that stall do not affect the deliveries of the others. They reconnect if StallFor
// is set.
func TestStalledWatchersDoNotAffectOthers(t *testing.T) {
	for _, p := range []scenario.Parameters{
		{Stall: load.StallFrozen},
		{Stall: load.StallWindow},
		{Stall: load.StallFrozen, StallFor: 50 * time.Millisecond},
		{Stall: load.StallWindow, StallFor: 50 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%s %s", p.Stall, p.StallFor), func(t *testing.T) {
			t.Parallel()
			run := smallRun("fanoutd", load.ClientRaw)
			run.Stalled, run.Stall, run.StallFor, run.ValueSize = 10, p.Stall, p.StallFor, 10_000
			r, err := scenario.Run(t.Context(), programs, run, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected {
				t.Errorf("got %d deliveries, want %d; wrong %q, reason %q, stalled %q", r.Counts.Received, r.Expected, wrong, r.Reason, r.Stalled)
			}
			if reconnected := r.Returned > 0; reconnected != (p.StallFor > 0) {
				t.Errorf("got %d reconnections after stalls of %v, want some only if that is not 0", r.Returned, p.StallFor)
			}
		})
	}
}

// Bystanders receive no events, and the watchers receive all of theirs.
func TestBystandersReceiveNothing(t *testing.T) {
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
			p := smallRun(c.peer, load.ClientRaw)
			p.Bystanders, p.Bystand, p.Objects = 50, c.bystand, 20
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected || r.Deliveries == 0 {
				t.Errorf("got %d deliveries, want %d; wrong %q, reason %q, stalled %q", r.Counts.Received, r.Expected, wrong, r.Reason, r.Stalled)
			}
			if want := r.Deliveries / int64(p.Watchers); r.Changes != want {
				t.Errorf("got %d changes, want %d, the deliveries to each watcher", r.Changes, want)
			}
		})
	}
}

// Watchers do not receive the writes that filled the window before, unless they ask for the
// state: then they receive all of it.
func TestWatchersIgnoreAPrefilledWindow(t *testing.T) {
	for _, name := range scenario.Scenarios {
		if name == scenario.Calls || name == scenario.State || strings.HasPrefix(name, "cluster-") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := smallRun("fanoutd", load.ClientRaw)
			p.Scenario, p.Window, p.Keys = name, 1000, 130 // more than one transaction
			if name == scenario.Steady {
				p.Rate = 50
			}
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected || r.Deliveries == 0 {
				t.Errorf("got %d deliveries, want %d; wrong %q, reason %q, stalled %q", r.Counts.Received, r.Expected, wrong, r.Reason, r.Stalled)
			}
		})
	}
}

func TestDistinctInterestsReceiveTheSameEvents(t *testing.T) {
	p := smallRun("fanoutd", load.ClientRaw)
	p.Interest, p.Groups = load.InterestExcept, 5
	r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected || r.Deliveries == 0 {
		t.Errorf("got %d deliveries, want %d; wrong %q, reason %q, stalled %q", r.Counts.Received, r.Expected, wrong, r.Reason, r.Stalled)
	}
}

// Opening watches is measured, and every watch works afterwards.
func TestOpeningIsMeasured(t *testing.T) {
	for _, c := range []struct {
		peer, client string
		perStream    int
	}{
		{"fanoutd", load.ClientRaw, 0},
		{"fanoutd", load.ClientRaw, 5},
		{"fanoutd", load.ClientFanoutd, 0},
		{"etcd", load.ClientRaw, 5},
		{"nats", load.ClientRaw, 5},
	} {
		t.Run(fmt.Sprintf("%s %s %d", c.peer, c.client, c.perStream), func(t *testing.T) {
			t.Parallel()
			p := smallRun(c.peer, c.client)
			p.Scenario, p.PerStream, p.Batch = scenario.Open, c.perStream, 1
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != int64(p.Watchers) {
				t.Errorf("got %d deliveries, want one to each of %d; wrong %q, reason %q, stalled %q", r.Counts.Received, p.Watchers, wrong, r.Reason, r.Stalled)
			}
			if r.Deliveries != int64(p.Watchers) || r.Elapsed <= 0 || r.Servers[0].Total <= 0 {
				t.Errorf("got incomplete measurements: %+v", r)
			}
		})
	}
}

// The server has the reports of all subscribers while they receive events.
func TestSubscribersReport(t *testing.T) {
	p := smallRun("fanoutd", load.ClientRaw)
	p.Scenario, p.Rate, p.PerStream, p.Reports = scenario.Steady, 200, 2, 50*time.Millisecond
	r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected {
		t.Errorf("got %d deliveries, want %d; wrong %q, reason %q, stalled %q", r.Counts.Received, r.Expected, wrong, r.Reason, r.Stalled)
	}
	if front := r.Servers[len(r.Servers)-1]; front.Reported != float64(p.Watchers) {
		t.Errorf("got reports of %v watches, want %d", front.Reported, p.Watchers)
	}
}

// Runs that differ in their watchers can make the same number of writes.
func TestWritesAreCounted(t *testing.T) {
	p := smallRun("fanoutd", load.ClientRaw)
	p.Writes, p.Watchers, p.Interest = 100, 0, load.InterestKey
	r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(p.Writes * p.Batch); r.Changes != want || r.Ack.Count != int64(p.Writes) || r.Deliveries != 0 {
		t.Errorf("got %d changes, %d acknowledgements and %d deliveries, want %d, %d and 0", r.Changes, r.Ack.Count, r.Deliveries, want, p.Writes)
	}
	if front := r.Servers[len(r.Servers)-1]; front.Total <= 0 {
		t.Errorf("got CPU time %d µs of the server, want some", front.Total)
	}
}

func TestWriterIsMeasuredWithoutWatchers(t *testing.T) {
	p := smallRun("fanoutd", load.ClientRaw)
	p.Scenario, p.Rate, p.Watchers = scenario.Steady, 100, 0
	r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Ack.Count == 0 || r.Expected != 0 || r.Stalled != "" {
		t.Errorf("got %+v, want acknowledged writes and no expected deliveries", r)
	}
}

// Invalid parameters are refused before any process starts.
func TestInvalidParametersAreRefused(t *testing.T) {
	for name, change := range map[string]func(*scenario.Parameters){
		"calls with watchers": func(p *scenario.Parameters) {
			p.Scenario, p.Method, p.Batch, p.Rate = scenario.Calls, calls.MethodGet, 1, 1
		},
		"unknown method": func(p *scenario.Parameters) { p.Scenario, p.Method, p.Batch = scenario.Calls, "Post", 1 },
		"calls of nats": func(p *scenario.Parameters) {
			p.Peer, p.Scenario, p.Method, p.Batch = "nats", scenario.Calls, calls.MethodGet, 1
		},
		"calls besides watches": func(p *scenario.Parameters) { p.Method = calls.MethodGet },
		"limits of etcd":        func(p *scenario.Parameters) { p.Peer, p.DefaultLimits = "etcd", true },
		"history of etcd":       func(p *scenario.Parameters) { p.Peer, p.History = "etcd", true },
		"state of nats":         func(p *scenario.Parameters) { p.Peer, p.Scenario, p.Batch, p.Watchers = "nats", scenario.State, 1, 0 },
		"no watchers":           func(p *scenario.Parameters) { p.Scenario, p.Watchers = scenario.Open, 0 },
		"negative stream":       func(p *scenario.Parameters) { p.PerStream = -1 },
		"streams of the floor":  func(p *scenario.Parameters) { p.Peer, p.PerStream = "floor", 2 },
		"client of the floor":   func(p *scenario.Parameters) { p.Peer, p.Client = "floor", load.ClientFanoutd },
		"streams of the client": func(p *scenario.Parameters) { p.Client, p.PerStream = load.ClientFanoutd, 2 },
		"bookmarks of etcd":     func(p *scenario.Parameters) { p.Peer, p.Bookmarks = "etcd", time.Second },
		"reports of a Watch":    func(p *scenario.Parameters) { p.Reports = time.Second },
		"writes of idle":        func(p *scenario.Parameters) { p.Scenario, p.Writes = scenario.Idle, 1 },
		"no batch":              func(p *scenario.Parameters) { p.Batch = 0 },
		"unknown peer":          func(p *scenario.Parameters) { p.Peer = "kafka" },
		"unknown interest":      func(p *scenario.Parameters) { p.Interest = "none" },
		"unwatched keys":        func(p *scenario.Parameters) { p.Interest, p.Keys = load.InterestKey, 100 },
		"negative rate":         func(p *scenario.Parameters) { p.Rate = -1 },
		"nats has no state":     func(p *scenario.Parameters) { p.Peer, p.Scenario = "nats", scenario.Startup },
		"nats has no lists":     func(p *scenario.Parameters) { p.Peer, p.Scenario = "nats", scenario.Lists },
		"steady without a rate": func(p *scenario.Parameters) { p.Scenario = scenario.Steady },
		"unknown scenario":      func(p *scenario.Parameters) { p.Scenario = "party" },
		"unknown stall":         func(p *scenario.Parameters) { p.Stalled, p.Stall = 1, "yes" },
		"nats has no window":    func(p *scenario.Parameters) { p.Peer, p.Stalled, p.Stall = "nats", 1, load.StallWindow },
		"client of nats-kv":     func(p *scenario.Parameters) { p.Client = load.ClientNATS },
		"unknown bystanders":    func(p *scenario.Parameters) { p.Bystanders, p.Bystand = 1, "yes" },
		"etcd has no selectors": func(p *scenario.Parameters) { p.Peer, p.Bystanders, p.Bystand = "etcd", 1, load.BystandSelector },
		"floor with bystanders": func(p *scenario.Parameters) { p.Peer, p.Bystanders, p.Bystand = "floor", 1, load.BystandKey },
		"lists with bystanders": func(p *scenario.Parameters) { p.Scenario, p.Bystanders, p.Bystand = scenario.Lists, 1, load.BystandKey },
		"etcd has no window":    func(p *scenario.Parameters) { p.Peer, p.Window = "etcd", 10 },
		"negative objects":      func(p *scenario.Parameters) { p.Objects = -1 },
		"etcd with except":      func(p *scenario.Parameters) { p.Peer, p.Interest = "etcd", load.InterestExcept },
		"kills of fanoutd":      func(p *scenario.Parameters) { p.Kills, p.Victim = 1, scenario.VictimLeader },
		"cluster of one":        func(p *scenario.Parameters) { p.Scenario, p.Batch = scenario.ClusterLoad, 1 },
		"outage without kills": func(p *scenario.Parameters) {
			p.Peer, p.Scenario, p.Batch, p.Watchers = peer.EtcdCluster, scenario.ClusterOutage, 1, 0
		},
		"watches of half of the members": func(p *scenario.Parameters) {
			p.Peer, p.Scenario, p.Batch, p.Watchers = peer.FanoutdCluster, scenario.ClusterLoad, 1, 2
		},
		"startup with objects": func(p *scenario.Parameters) { p.Scenario, p.Objects = scenario.Startup, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			p := smallRun("fanoutd", load.ClientRaw)
			change(&p)
			phases := 0
			_, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) { phases++ }})
			if err == nil || phases > 0 {
				t.Errorf("got error %v after %d phases, want one after 0", err, phases)
			}
		})
	}
}
