package main

import (
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// growth varies one parameter at a time and keeps the others constant.
func growth(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	s.fanoutd(size{100, 100}, nil)
	for _, n := range []int{1000, 10000} {
		s.fanoutd(size{100, 100}, beside(n, load.BystandKey))
		s.fanoutd(size{100, 100}, beside(n, load.BystandOne))
	}
	for _, n := range []int{100, 1000} {
		s.fanoutd(size{100, 100}, beside(n, load.BystandSelector))
	}
	for _, n := range []int{1000, 10_000, 100_000} {
		s.fanoutd(size{100, 100}, func(p *scenario.Parameters) { p.Objects = n })
	}
	for _, n := range []int{1, 10, 100, 1000} {
		s.fanoutd(size{1000, 100}, func(p *scenario.Parameters) { p.Interest, p.Groups = load.InterestExcept, n })
	}
	for _, n := range []int{1000, 10000} {
		s.fanoutd(size{n, 100}, nil)
	}
	s.memory()
	s.windows()
	return s.runs
}

// memory varies watchers, objects and window while nothing is written.
func (s *plan) memory() {
	for _, z := range []size{{1000, 100}, {3000, 100}, {10000, 100}, {1000, 1}, {3000, 1}, {10000, 1}} {
		s.fanoutd(z, func(p *scenario.Parameters) {
			waiting(p)
			p.Objects = 1000
		})
	}
	for _, n := range []int{1000, 10_000, 100_000} {
		s.fanoutd(size{100, 100}, func(p *scenario.Parameters) {
			waiting(p)
			p.Objects = n
		})
		s.fanoutd(size{100, 100}, func(p *scenario.Parameters) {
			waiting(p)
			p.Keys, p.Window = 100, n
		})
	}
}

// windows runs all scenarios with a full window of the default size, and with one that is
// ten times larger.
func (s *plan) windows() {
	for _, change := range []func(p *scenario.Parameters){
		nil, bursts, storm(scenario.Startup, many), storm(scenario.Resume, many), listed(10_000, 256, 0),
	} {
		for _, n := range []int{10_000, 100_000} {
			s.fanoutd(size{1000, 100}, func(p *scenario.Parameters) {
				if change != nil {
					change(p)
				}
				if p.Window = n; p.Scenario == scenario.Lists {
					p.Watchers = 10
				}
			})
		}
	}
}

func (s *plan) fanoutd(z size, change func(p *scenario.Parameters)) {
	s.add(z, []string{"fanoutd"}, change)
}

// beside adds n watches of objects that never change.
func beside(n int, what string) func(p *scenario.Parameters) {
	return func(p *scenario.Parameters) { p.Bystanders, p.Bystand = n, what }
}
