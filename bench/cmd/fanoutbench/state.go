package main

import (
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// kept measures a million objects: the memory for them, and a start with them.
func kept(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	s.add(size{0, 1}, []string{"etcd", "fanoutd", "fanoutd-embedded", "nats-kv"}, func(p *scenario.Parameters) {
		p.Scenario, p.Keys = scenario.State, 1_000_000
	})
	return s.runs
}
