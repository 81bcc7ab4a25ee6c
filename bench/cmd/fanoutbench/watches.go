package main

import (
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// watched measures what events cost with few and with very many interests on as many connections, and
// Subscribe streams of one watch beside Watch.
func watched(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	for _, z := range []size{{10, 1}, {100_000, 10_000}, {100_000, 1000}} {
		s.fanoutd(z, func(p *scenario.Parameters) {
			p.PerStream, p.Interest, p.Keys = z.perConnection, load.InterestKey, z.watchers
		})
	}
	for _, change := range []func(p *scenario.Parameters){nil, saturated} {
		s.fanoutd(size{1000, 1}, change)
		s.fanoutd(size{1000, 1}, both(change, perStream(1)))
	}
	return s.runs
}
