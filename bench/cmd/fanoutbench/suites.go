package main

import (
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// suites are lists of runs.
var suites = map[string]func(duration time.Duration) []scenario.Parameters{
	"core": core,
}

// sizes are how many watchers there are, and how many of them on a connection.
var sizes = [][2]int{{1000, 1}, {10000, 1}, {1000, 100}, {10000, 100}}

// core compares what a delivery costs: each event a message of its own, and 64 together.
func core(duration time.Duration) []scenario.Parameters {
	var runs []scenario.Parameters
	for _, batch := range []int{1, 64} {
		for _, size := range sizes {
			for _, peer := range []string{"floor", "fanoutd", "etcd", "nats"} {
				runs = append(runs, scenario.Parameters{
					Scenario: "saturation", Peer: peer, Client: load.ClientRaw,
					Watchers: size[0], PerConnection: size[1], PerStream: 1, Interest: load.InterestAll,
					Keys: 64, ValueSize: 256, Batch: batch, Outstanding: 1, Duration: duration,
				})
			}
		}
	}
	return runs
}
