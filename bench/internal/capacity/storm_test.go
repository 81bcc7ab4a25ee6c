package capacity

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/config"
)

// small is a fleet that is simulated in no time.
func small(change func(*Fleet)) Fleet {
	f := Fleet{Load: assumed, Node: nodes[0], Watches: 3000, Replicas: 3, Zones: 3, Balance: Least, Restart: 10 * time.Second}
	if change != nil {
		change(&f)
	}
	return f
}

var fleets = map[string]Fleet{
	"least":           small(nil),
	"random":          small(func(f *Fleet) { f.Balance = Random }),
	"many on one":     small(func(f *Fleet) { f.PerConnection, f.Watches = 50, 30_000 }),
	"from one host":   small(func(f *Fleet) { f.Hosts = 1 }),
	"six":             small(func(f *Fleet) { f.Replicas = 6 }),
	"weak":            small(func(f *Fleet) { f.Cores, f.Watches, f.Events = 1, 20_000, 3 }),
	"too weak":        small(func(f *Fleet) { f.Cores, f.Watches = 1, 60_000 }),
	"large snapshots": small(func(f *Fleet) { f.Snapshot = 20 }),
	"in clear":        small(func(f *Fleet) { f.TLS = false }),
}

func simulate(t *testing.T, f Fleet, incident string, seed uint64) Result {
	t.Helper()
	c := CheckedIn()
	r, err := Simulate(&c, f, incident, seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheSameSeedGivesTheSameResult(t *testing.T) {
	for _, name := range Incidents() {
		first := simulate(t, small(nil), name, 7)
		if again := simulate(t, small(nil), name, 7); !reflect.DeepEqual(first, again) {
			t.Errorf("%s: %+v and %+v", name, first, again)
		}
		if other := simulate(t, small(nil), name, 8); reflect.DeepEqual(first, other) {
			t.Errorf("%s: another seed gives the same", name)
		}
	}
}

// Whatever happens, everybody comes back, and nothing takes more than there is.
func TestNobodyIsLost(t *testing.T) {
	for fleet, f := range fleets {
		for _, name := range Incidents() {
			t.Run(fleet+"/"+name, func(t *testing.T) {
				r := simulate(t, f, name, 1)
				if r.Lost > 0 || r.Interruptions == 0 {
					t.Errorf("%d of %d did not come back", r.Lost, r.Interruptions)
				}
				// Some are always on their way because their time was over.
				all := f.connections()
				if last := r.Connected[len(r.Connected)-1]; last < all-all/50-1 || last > all {
					t.Errorf("%d of %d are connected in the end", last, all)
				}
				if r.Half > r.Most || r.Most > r.Longest || r.Longest > r.Back {
					t.Errorf("half are back after %v, 99 %% after %v, all after %v, and it is over after %v", r.Half, r.Most, r.Longest, r.Back)
				}
				if r.Processors > 1.001 {
					t.Errorf("%.1f %% of the processors are busy", 100*r.Processors)
				}
				if most := config.Defaults().MaxConnections; r.Peak > most {
					t.Errorf("%d connections, and at most %d are allowed", r.Peak, most)
				}
				want := 0
				if name == "compacted" || name == "restore" {
					want = r.Interruptions
				}
				if r.Snapshots != want {
					t.Errorf("%d snapshots after %d interruptions, want %d", r.Snapshots, r.Interruptions, want)
				}
			})
		}
	}
}

// One address begins no more connections than it may.
func TestTheRateOfConnectionsIsKept(t *testing.T) {
	f := fleets["from one host"]
	perSecond := int(config.Defaults().MaxConnectionRate)
	for _, name := range []string{"kill", "rolling", "outage"} {
		// A second's worth of them may come at once.
		if r := simulate(t, f, name, 1); r.Connects > 2*perSecond || r.Connects < perSecond {
			t.Errorf("%s: %d connections in a second, of %d", name, r.Connects, perSecond)
		}
	}
}

// What servers count is what connections are.
func TestServersCountTheirConnections(t *testing.T) {
	c := CheckedIn()
	for fleet, f := range fleets {
		for _, i := range incidents {
			s := newStorm(&c, f, i, 1)
			s.begin()
			s.run()
			counted := make([]replica, len(s.replicas))
			for _, one := range s.connections {
				switch one.state {
				case waiting:
					counted[one.replica].waiting++
				case attended:
					counted[one.replica].serving++
				}
			}
			for n := range counted {
				if r := s.replicas[n]; r.waiting != counted[n].waiting || r.serving != counted[n].serving {
					t.Errorf("%s, %s: server %d counts %d and %d, and has %d and %d", fleet, i.name, n,
						r.waiting, r.serving, counted[n].waiting, counted[n].serving)
				}
			}
		}
	}
}

// How long a lost server is felt is how long the others take to set up what it had.
func TestHowLongALostServerIsFelt(t *testing.T) {
	c := CheckedIn()
	f := small(func(f *Fleet) { f.Cores, f.Watches = 1, 18_000 })
	r := simulate(t, f, "kill", 1)
	watches := float64(f.Watches / 3)
	work := watches * (c.begin(f.Load) + c.Watch.Value/1e6)
	free := 2 * (float64(f.Cores) - watches*1.25*f.Events*c.delivery(1)) // halfway
	if want := work / free; r.Back.Seconds() < 0.9*want || r.Back.Seconds() > 1.2*want {
		t.Errorf("it is felt for %v, want about %.1f s", r.Back, want)
	}
}

// Who takes longer than the window reaches back gets differences, and nobody else.
func TestDifferencesAreForThoseWhoWereAwayLong(t *testing.T) {
	f := small(func(f *Fleet) { f.Restart = 8 * time.Minute })
	if r := simulate(t, f, "outage", 1); r.Differences != r.Interruptions {
		t.Errorf("%d differences after %d interruptions", r.Differences, r.Interruptions)
	}
	if r := simulate(t, f, "kill", 1); r.Differences != 0 {
		t.Errorf("%d differences though other servers are there", r.Differences)
	}
}

func TestFleetsThatCannotBe(t *testing.T) {
	c := CheckedIn()
	for name, change := range map[string]func(*Fleet){
		"no watches":          func(f *Fleet) { f.Watches = 0 },
		"no connection":       func(f *Fleet) { f.PerConnection = 0 },
		"one zone":            func(f *Fleet) { f.Zones = 1 },
		"an empty zone":       func(f *Fleet) { f.Replicas = 2 },
		"too much":            func(f *Fleet) { f.Watches = 1 << 40 },
		"an unknown balancer": func(f *Fleet) { f.Balance = "best" },
		"nothing happens":     func(f *Fleet) { f.Events = 0 },
	} {
		if _, err := Simulate(&c, small(change), "kill", 1); err == nil {
			t.Errorf("%s: is simulated", name)
		}
	}
	if _, err := Simulate(&c, small(nil), "flood", 1); err == nil || err.Error() != fmt.Sprintf("incident %q: one of kill, rolling, zone, outage, compacted, restore", "flood") {
		t.Errorf("an unknown incident: %v", err)
	}
}
