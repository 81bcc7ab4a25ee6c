package capacity

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/config"
)

// smallFleet returns a fleet whose incidents take little time to simulate.
func smallFleet(change func(*Fleet)) Fleet {
	f := Fleet{Load: assumed, Node: nodes[0], Watches: 3000, Replicas: 3, Zones: 3, Balance: Least, Restart: 10 * time.Second}
	if change != nil {
		change(&f)
	}
	return f
}

var fleets = map[string]Fleet{
	"least":                   smallFleet(nil),
	"random":                  smallFleet(func(f *Fleet) { f.Balance = Random }),
	"50 watches a connection": smallFleet(func(f *Fleet) { f.PerConnection, f.Watches = 50, 30_000 }),
	"one host":                smallFleet(func(f *Fleet) { f.Hosts = 1 }),
	"six servers":             smallFleet(func(f *Fleet) { f.Replicas = 6 }),
	"one core":                smallFleet(func(f *Fleet) { f.Cores, f.Watches, f.Events = 1, 20_000, 3 }),
	"overloaded":              smallFleet(func(f *Fleet) { f.Cores, f.Watches = 1, 60_000 }),
	"large snapshots":         smallFleet(func(f *Fleet) { f.Snapshot = 20 }),
	"without TLS":             smallFleet(func(f *Fleet) { f.TLS = false }),
}

func simulate(t *testing.T, f Fleet, incident string, seed uint64) Result {
	t.Helper()
	c := DefaultConstants()
	r, err := Simulate(&c, f, incident, seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSimulationDependsOnlyOnItsSeed(t *testing.T) {
	for _, name := range Incidents() {
		first := simulate(t, smallFleet(nil), name, 7)
		if second := simulate(t, smallFleet(nil), name, 7); !reflect.DeepEqual(first, second) {
			t.Errorf("%s: two runs with one seed differ: %+v and %+v", name, first, second)
		}
		if other := simulate(t, smallFleet(nil), name, 8); reflect.DeepEqual(first, other) {
			t.Errorf("%s: runs with different seeds are equal: %+v", name, first)
		}
	}
}

// All connections come back after every incident, and the servers stay within their limits.
func TestFleetsRecoverFromIncidents(t *testing.T) {
	for fleet, f := range fleets {
		for _, name := range Incidents() {
			t.Run(fleet+"/"+name, func(t *testing.T) {
				r := simulate(t, f, name, 1)
				if r.Lost > 0 || r.Interruptions == 0 {
					t.Errorf("got %d lost connections after %d interruptions, want 0 after more than 0", r.Lost, r.Interruptions)
				}
				// A few connections are always reconnecting because their watches expired.
				all := f.connections()
				if last := r.Connected[len(r.Connected)-1]; last < all-all/50-1 || last > all {
					t.Errorf("got %d connections at the end, want about %d", last, all)
				}
				if r.Half > r.Most || r.Most > r.Longest || r.Longest > r.Back {
					t.Errorf("got a median of %v, a 99th percentile of %v, a maximum of %v and an end after %v, want increasing times",
						r.Half, r.Most, r.Longest, r.Back)
				}
				if r.Processors > 1.001 {
					t.Errorf("got %.1f %% of the processors in use, want at most 100 %%", 100*r.Processors)
				}
				if most := config.Defaults().MaxConnections; r.Peak > most {
					t.Errorf("got %d connections of a server, want at most %d", r.Peak, most)
				}
				want := 0
				if name == "compacted" || name == "restore" {
					want = r.Interruptions
				}
				if r.Snapshots != want {
					t.Errorf("got %d snapshots after %d interruptions, want %d", r.Snapshots, r.Interruptions, want)
				}
			})
		}
	}
}

func TestConnectionsOfOneHostAreRateLimited(t *testing.T) {
	f := fleets["one host"]
	perSecond := int(config.Defaults().MaxConnectionRate)
	for _, name := range []string{"kill", "rolling", "outage"} {
		// The burst is a second's worth of connections.
		if r := simulate(t, f, name, 1); r.Connects > 2*perSecond || r.Connects < perSecond {
			t.Errorf("%s: got %d connections in a second, want %d to %d", name, r.Connects, perSecond, 2*perSecond)
		}
	}
}

// The connection counts of the servers agree with the states of the connections.
func TestServersCountTheirConnections(t *testing.T) {
	c := DefaultConstants()
	for fleet, f := range fleets {
		for _, i := range incidents {
			s := newSimulation(&c, f, i, 1)
			s.begin()
			s.run()
			want := make([]replica, len(s.replicas))
			for _, conn := range s.connections {
				switch conn.state {
				case stateWaiting:
					want[conn.replica].waiting++
				case stateLive:
					want[conn.replica].serving++
				}
			}
			for n := range want {
				if got := s.replicas[n]; got.waiting != want[n].waiting || got.serving != want[n].serving {
					t.Errorf("%s, %s: server %d counts %d waiting and %d live connections, want %d and %d", fleet, i.name, n,
						got.waiting, got.serving, want[n].waiting, want[n].serving)
				}
			}
		}
	}
}

// After the loss of a server, the interruption lasts as long as the other servers need to
// set up its watches.
func TestInterruptionLastsAsLongAsTheSetup(t *testing.T) {
	c := DefaultConstants()
	f := smallFleet(func(f *Fleet) { f.Cores, f.Watches = 1, 18_000 })
	r := simulate(t, f, "kill", 1)
	watches := float64(f.Watches / 3)
	work := watches * (c.connectCPU(f.Load) + c.Watch.Value/1e6)
	free := 2 * (float64(f.Cores) - watches*1.25*f.Events*c.deliveryCPU(1)) // when half of the watches are back
	if want := work / free; r.Back.Seconds() < 0.9*want || r.Back.Seconds() > 1.2*want {
		t.Errorf("got an interruption of %v, want about %.1f s", r.Back, want)
	}
}

func TestDifferencesFollowInterruptionsLongerThanTheWindow(t *testing.T) {
	f := smallFleet(func(f *Fleet) { f.Restart = 8 * time.Minute })
	if r := simulate(t, f, "outage", 1); r.Differences != r.Interruptions {
		t.Errorf("outage of all servers: got %d differences after %d interruptions, want one each", r.Differences, r.Interruptions)
	}
	if r := simulate(t, f, "kill", 1); r.Differences != 0 {
		t.Errorf("loss of one server: got %d differences, want 0", r.Differences)
	}
}

func TestInvalidFleetsAreRefused(t *testing.T) {
	c := DefaultConstants()
	for name, change := range map[string]func(*Fleet){
		"no watches":              func(f *Fleet) { f.Watches = 0 },
		"no connection":           func(f *Fleet) { f.PerConnection = 0 },
		"one zone":                func(f *Fleet) { f.Zones = 1 },
		"a zone without a server": func(f *Fleet) { f.Replicas = 2 },
		"too many watches":        func(f *Fleet) { f.Watches = 1 << 40 },
		"unknown balance":         func(f *Fleet) { f.Balance = "best" },
		"no events":               func(f *Fleet) { f.Events = 0 },
	} {
		if _, err := Simulate(&c, smallFleet(change), "kill", 1); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	want := fmt.Sprintf("unknown incident %q (want one of kill, rolling, zone, outage, compacted, restore)", "flood")
	if _, err := Simulate(&c, smallFleet(nil), "flood", 1); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}
