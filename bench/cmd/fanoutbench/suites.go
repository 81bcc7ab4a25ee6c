package main

import (
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// suite is a list of runs, and the parts of the document that show them.
type suite struct {
	runs func(duration time.Duration) []scenario.Parameters
	part report.Part
}

var suites = map[string]suite{
	"core":      {core, report.Part{Tables: true}},
	"short":     {short, report.Part{Tables: true, Goals: true}},
	"goals":     {goals, report.Part{Tables: true, Goals: true}},
	"growth":    {growth, report.Part{Curves: true}},
	"calls":     {called, report.Part{Tables: true, Goals: true}},
	"state":     {kept, report.Part{Tables: true, Goals: true}},
	"subscribe": {subscribe, report.Part{Tables: true, Goals: true}},
	"watches":   {watched, report.Part{Tables: true, Goals: true}},
	"cluster":   {clustered, report.Part{Tables: true, Goals: true}},
	"full":      {full, report.Part{Tables: true, Curves: true}},
}

// plan collects runs.
type plan struct {
	duration time.Duration
	runs     []scenario.Parameters
}

// size is the number of watchers, in total and per connection.
type size struct{ watchers, perConnection int }

var sizes = []size{{1000, 1}, {10000, 1}, {1000, 100}, {10000, 100}}

// add adds a run for each peer. Unless change says otherwise, one writer writes one event
// of 256 bytes at a time to a few keys, and all watchers watch all keys.
func (s *plan) add(z size, peers []string, change func(p *scenario.Parameters)) {
	for _, peer := range peers {
		p := scenario.Parameters{
			Scenario: scenario.Saturation, Peer: peer, Client: load.ClientRaw,
			Watchers: z.watchers, PerConnection: z.perConnection, Interest: load.InterestAll,
			Keys: 64, ValueSize: 256, Batch: 1, Outstanding: 1, Duration: s.duration,
		}
		if peer == "nats-kv" {
			p.Client = load.ClientNATS
		}
		if change != nil {
			change(&p)
		}
		s.runs = append(s.runs, p)
	}
}

// Changes for plan.add.

func bursts(p *scenario.Parameters) { p.Batch = 64 }

func large(p *scenario.Parameters) { p.ValueSize = 1024 }

// saturated keeps so many writes in flight that the writer is never the bottleneck.
func saturated(p *scenario.Parameters) { p.Outstanding = 16 }

// steady writes at a rate, long enough for percentiles. A slow write does not delay the
// next one.
func steady(rate float64) func(p *scenario.Parameters) { return steadyFor(rate, 5*time.Second) }

func steadyFor(rate float64, least time.Duration) func(p *scenario.Parameters) {
	return func(p *scenario.Parameters) {
		p.Duration = max(p.Duration, least)
		p.Scenario, p.Rate, p.Outstanding = scenario.Steady, rate, 32
	}
}

// stalled adds watchers that do not read, a tenth of the number of the others.
func stalled(how string, reconnectAfter time.Duration) func(p *scenario.Parameters) {
	return func(p *scenario.Parameters) {
		steady(20)(p)
		p.Stalled, p.Stall, p.StallFor = p.Watchers/10, how, reconnectAfter
	}
}

// waiting writes nothing except one event at the end.
func waiting(p *scenario.Parameters) { p.Scenario, p.Keys = scenario.Idle, 1 }

// many is the number of objects of a snapshot of 200 kB.
const many = 800

func storm(name string, objects int) func(p *scenario.Parameters) {
	return func(p *scenario.Parameters) {
		p.Scenario, p.Keys = name, objects
	}
}

func listed(objects, size, page int) func(p *scenario.Parameters) {
	return func(p *scenario.Parameters) {
		p.Scenario, p.Keys, p.ValueSize, p.PageSize = scenario.Lists, objects, size, page
	}
}

// Peers by the features that a run needs.
var (
	main4     = []string{"floor", "fanoutd", "etcd", "nats"}
	all       = []string{"floor", "fanoutd", "etcd", "grpc-proxy", "nats", "nats-kv"}
	resumable = []string{"fanoutd", "etcd", "nats-kv"}
)

// core compares the cost of a delivery, with one event per message and with 64.
func core(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	for _, z := range sizes {
		s.add(z, main4, nil)
	}
	for _, z := range sizes {
		s.add(z, main4, bursts)
	}
	return s.runs
}

// short fits into ten minutes, repeats included.
func short(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	for _, z := range sizes {
		s.add(z, main4, nil)
	}
	s.add(size{1000, 1}, main4, bursts)
	s.add(size{1000, 100}, main4, bursts)
	s.add(size{1000, 100}, []string{"fanoutd", "etcd"}, saturated)
	for _, z := range []size{{1, 1}, {10000, 100}} {
		s.add(z, []string{"fanoutd", "etcd"}, steady(10))
	}
	s.add(size{1000, 1}, []string{"floor", "fanoutd"}, storm(scenario.Startup, many))
	s.add(size{50, 1}, []string{"fanoutd", "etcd"}, listed(10_000, 1024, 0))
	return s.runs
}

// goals adds what short lacks to decide whether the goals are reached.
func goals(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	s.add(size{10000, 100}, []string{"fanoutd", "etcd"}, saturated)
	for _, z := range []size{{0, 1}, {10000, 100}} {
		s.add(z, []string{"fanoutd"}, steadyFor(10, 20*time.Second)) // many writes, for their 99th percentile
	}
	s.add(size{1000, 10}, []string{"fanoutd"}, steady(20))
	s.add(size{1000, 10}, []string{"fanoutd"}, stalled(load.StallFrozen, 0))
	s.add(size{1000, 10}, []string{"fanoutd"}, stalled(load.StallFrozen, 500*time.Millisecond))
	for _, z := range []size{{100000, 100}, {15000, 1}} {
		s.add(z, []string{"fanoutd"}, waiting)
	}
	s.add(size{5000, 1}, []string{"floor", "fanoutd"}, storm(scenario.Startup, many))
	s.add(size{5000, 1}, []string{"fanoutd"}, storm(scenario.Startup, 1)) // the cost of the streams alone
	for _, page := range []int{0, 1000} {
		s.add(size{1, 1}, []string{"fanoutd"}, listed(150_000, 256, page))
	}
	return s.runs
}

// full contains all runs, and takes hours.
func full(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	for _, z := range []size{{1, 1}, {100, 1}, {1000, 1}, {5000, 1}, {10000, 1}, {100, 100}, {1000, 100}, {5000, 100}, {10000, 100}, {50000, 100}} {
		peers := all
		if z.watchers > 10000 {
			peers = main4
		}
		for _, change := range []func(*scenario.Parameters){nil, bursts, large, saturated, steady(10)} {
			s.add(z, peers, change)
		}
	}
	for _, client := range []string{load.ClientGRPC, load.ClientGRPCDefault} {
		for _, z := range []size{{1000, 1}, {1000, 100}} {
			s.add(z, []string{"fanoutd"}, func(p *scenario.Parameters) { p.Client = client })
		}
	}
	for _, watchers := range []int{1000, 10000} {
		s.add(size{watchers, 100}, []string{"etcd"}, func(p *scenario.Parameters) { p.PerStream = 100 })
	}
	for _, watchers := range []int{100, 1000, 10000} {
		s.add(size{watchers, 100}, []string{"fanoutd", "etcd", "nats"}, func(p *scenario.Parameters) {
			p.Interest, p.Keys, p.Outstanding = load.InterestKey, watchers, 16
		})
		s.add(size{watchers, 100}, []string{"fanoutd", "nats"}, func(p *scenario.Parameters) {
			p.Interest, p.Keys, p.Groups, p.Outstanding = load.InterestLabel, 1000, 100, 16
		})
	}
	for _, z := range []size{{1000, 10}, {5000, 10}} {
		s.add(z, []string{"fanoutd", "etcd", "nats"}, steady(20))
		s.add(z, []string{"fanoutd", "etcd", "nats"}, stalled(load.StallFrozen, 0))
		s.add(z, []string{"fanoutd", "etcd", "nats"}, stalled(load.StallFrozen, 500*time.Millisecond))
		s.add(z, []string{"fanoutd", "etcd"}, stalled(load.StallWindow, 0))
	}
	for _, z := range []size{{1000, 1}, {5000, 1}, {5000, 100}} {
		s.add(z, append([]string{"floor"}, resumable...), storm(scenario.Startup, many))
		s.add(z, resumable, storm(scenario.Resume, many))
	}
	for _, z := range []size{{1000, 1}, {15000, 1}, {10000, 100}, {100000, 100}} {
		s.add(z, main4, waiting)
	}
	for _, page := range []int{0, 500, 1000} {
		s.add(size{50, 1}, []string{"fanoutd", "etcd"}, listed(10_000, 1024, page))
		s.add(size{1, 1}, []string{"fanoutd", "etcd"}, listed(150_000, 256, page))
	}
	s.include(goals(duration))
	s.include(growth(duration))
	s.include(subscribe(duration))
	s.include(called(duration))
	s.include(kept(duration))
	s.include(watched(duration))
	s.include(clustered(duration))
	return s.runs
}

// include adds runs, without duplicates.
func (s *plan) include(runs []scenario.Parameters) {
	for _, p := range runs {
		if !slices.Contains(s.runs, p) {
			s.runs = append(s.runs, p)
		}
	}
}
