package main

import (
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// clustered measures three servers that are their own etcd cluster, beside three servers before three etcds.
// cluster-fan-out is meant to last longer than the others: see the Makefile.
func clustered(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	for _, rate := range []float64{0, 100, 1000} {
		s.add(size{3000, 100}, []string{peer.FanoutdCluster, peer.FanoutdsBeforeEtcds}, both(large, spread, func(p *scenario.Parameters) {
			p.Scenario, p.Rate, p.PerStream = scenario.ClusterLoad, rate, 100
		}))
	}
	for _, victim := range []string{scenario.VictimFollower, scenario.VictimLeader} {
		s.add(size{1000, 1000}, []string{peer.FanoutdCluster}, both(large, spread, func(p *scenario.Parameters) {
			p.Scenario, p.Client, p.Rate, p.Kills, p.Victim = scenario.ClusterKill, load.ClientFanoutd, 100, 5, victim
			p.Outstanding = 256 // more than are written while there is no leader
		}))
	}
	s.add(size{0, 1}, peer.Clusters, both(large, func(p *scenario.Parameters) {
		p.Scenario, p.Outstanding, p.Kills, p.Victim = scenario.ClusterOutage, 8, 20, scenario.VictimLeader
	}))
	s.add(size{10000, 100}, []string{peer.FanoutdCluster}, both(saturated, func(p *scenario.Parameters) {
		p.Scenario = scenario.ClusterFanOut
	}))
	return s.runs
}

// spread gives each watch a key of its own, of a thousand. A slow write does not delay the next one.
func spread(p *scenario.Parameters) {
	p.Interest, p.Keys, p.Outstanding = load.InterestKey, 1000, 32
}
