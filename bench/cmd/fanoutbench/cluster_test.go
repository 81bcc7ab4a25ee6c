package main

import (
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// smallCluster returns the parameters of a short run of a cluster.
func smallCluster(name, system string) scenario.Parameters {
	p := smallRun(system, load.ClientRaw)
	p.Scenario, p.Batch, p.Watchers = name, 1, 30
	return p
}

// runCluster makes a run in which nothing may be wrong.
func runCluster(t *testing.T, p scenario.Parameters) *scenario.Record {
	t.Helper()
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if wrong := report.Groups([]*scenario.Record{r})[0].Wrong(); wrong != "" || r.Counts.Received != r.Expected {
		t.Errorf("got %d deliveries, want %d; wrong %q, reason %q, stalled %q", r.Counts.Received, r.Expected, wrong, r.Reason, r.Stalled)
	}
	return r
}

// All servers of a cluster are measured, with and without writes.
func TestClustersAreMeasuredUnderLoad(t *testing.T) {
	for _, system := range []string{peer.FanoutdCluster, peer.FanoutdsBeforeEtcds} {
		for _, rate := range []float64{0, 50} {
			p := smallCluster(scenario.ClusterLoad, system)
			p.Rate, p.Interest = rate, load.InterestKey
			t.Run(system+" "+report.Case(p), func(t *testing.T) {
				r := runCluster(t, p)
				if rate > 0 && (r.Deliveries == 0 || r.Ack.Count == 0) {
					t.Errorf("got %d deliveries and %d acknowledgements, want some", r.Deliveries, r.Ack.Count)
				}
				if want := map[string]int{peer.FanoutdCluster: 3, peer.FanoutdsBeforeEtcds: 6}[system]; len(r.Servers) != want {
					t.Errorf("got %d servers, want %d", len(r.Servers), want)
				}
				for _, s := range r.Servers {
					if s.Total <= 0 || s.RSSEnd == 0 || s.AnonEnd == 0 || s.Peak == 0 {
						t.Errorf("got incomplete measurements of a server: %+v", s)
					}
				}
			})
		}
	}
}

// Acknowledged writes reach a subscriber before and after another server is killed.
func TestDeliveryIsMeasuredAroundAKill(t *testing.T) {
	for _, victim := range []string{scenario.VictimFollower, scenario.VictimLeader} {
		t.Run(victim, func(t *testing.T) {
			p := smallCluster(scenario.ClusterKill, peer.FanoutdCluster)
			p.Client, p.Interest, p.Watchers = load.ClientFanoutd, load.InterestKey, p.Keys
			p.Rate, p.Kills, p.Victim, p.Duration = 20, 2, victim, time.Second
			r := runCluster(t, p)
			c := r.Cluster
			if c.Before.Count == 0 || c.Around.Count == 0 || c.AckOf.Before.Count != c.Before.Count || c.AckOf.Around.Count != c.Around.Count {
				t.Errorf("got incomplete measurements: %+v", c)
			}
			if c.Replaced > 0 {
				t.Errorf("got %d states instead of events, want 0", c.Replaced)
			}
		})
	}
}

// Each writer has a pause at each kill, of a leader or of a follower.
func TestPausesOfWritersAreMeasured(t *testing.T) {
	for _, system := range peer.Clusters {
		t.Run(system, func(t *testing.T) {
			p := smallCluster(scenario.ClusterOutage, system)
			p.Watchers, p.Kills, p.Victim = 0, 2, scenario.VictimLeader
			r := runCluster(t, p)
			if want := int64(p.Kills * p.Outstanding); r.Cluster.Pauses.Count != want {
				t.Errorf("got %d pauses, want %d", r.Cluster.Pauses.Count, want)
			}
		})
	}
}

func TestElectionsAreCountedDuringFanOut(t *testing.T) {
	r := runCluster(t, smallCluster(scenario.ClusterFanOut, peer.FanoutdCluster))
	if r.Deliveries == 0 || r.Cluster.Elected < 0 {
		t.Errorf("got %d deliveries and %d elections, want some deliveries", r.Deliveries, r.Cluster.Elected)
	}
}
