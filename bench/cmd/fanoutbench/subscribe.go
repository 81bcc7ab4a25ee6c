package main

import (
	"time"

	"github.com/fanoutd/fanoutd/client"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// subscribe measures streams with many watches beside what they replace, and beside other systems
// with as many watches on a stream.
func subscribe(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	s.sharedEvents()
	s.singleKeys()
	s.opened()
	s.reported()
	s.idleStreams()
	s.oneWatch()
	distinct := &plan{}
	distinct.include(s.runs)
	return distinct.runs
}

// sharedEvents delivers events to 10,000 watches of one interest.
func (s *plan) sharedEvents() {
	z := size{10000, 100}
	s.add(z, []string{"floor", "fanoutd", "nats"}, nil)
	s.add(z, []string{"fanoutd", "etcd"}, perStream(100))
	s.add(z, []string{"fanoutd", "etcd", "nats"}, perStream(1000))
}

// singleKeys delivers events to watches of one key each, and makes the same writes without
// watches.
func (s *plan) singleKeys() {
	writes := func(p *scenario.Parameters) {
		saturated(p)
		p.Interest, p.Keys, p.Writes = load.InterestKey, 1000, 30_000
	}
	s.fanoutd(size{0, 1}, writes)
	s.fanoutd(size{1000, 100}, writes)
	s.fanoutd(size{1000, 100}, both(writes, perStream(100)))
	for _, n := range []int{10, 10_000} {
		s.fanoutd(size{n, n}, func(p *scenario.Parameters) {
			p.PerStream, p.Interest, p.Keys = n, load.InterestKey, n
		})
	}
}

// opened opens 10,000 watches at once.
func (s *plan) opened() {
	z := size{10000, 100}
	s.fanoutd(z, opening)
	s.add(z, []string{"fanoutd", "etcd"}, both(opening, perStream(100)))
	s.add(z, []string{"fanoutd", "etcd"}, both(opening, perStream(1000)))
}

// reported measures subscribers with and without reports.
func (s *plan) reported() {
	for _, interval := range []time.Duration{0, time.Second} {
		s.fanoutd(size{1000, 1}, func(p *scenario.Parameters) {
			steadyFor(50, 10*time.Second)(p)
			p.PerStream, p.Reports = 1, interval
		})
	}
}

// idleStreams measures the memory of idle watches.
func (s *plan) idleStreams() {
	const many, million = 200_000, 1_000_000
	z := size{many, 1000}
	s.fanoutd(z, both(waiting, perStream(1000)))
	s.fanoutd(z, both(waiting, perStream(1000), func(p *scenario.Parameters) { p.Interest, p.Keys = load.InterestKey, many }))
	z = size{million, 1000}
	// The raw client asks for what the Go client asks for by default, and reports more often: the Go
	// client reports once, and then every minute while nothing changes.
	s.fanoutd(z, both(waiting, perStream(1000), func(p *scenario.Parameters) {
		p.State, p.Bookmarks, p.Reports = true, client.DefaultBookmarkInterval, client.DefaultBookmarkInterval
	}))
	s.fanoutd(z, both(waiting, func(p *scenario.Parameters) { p.Client = load.ClientFanoutd }))
}

// oneWatch compares the method Watch with streams that carry one watch.
func (s *plan) oneWatch() {
	for _, z := range []size{{10000, 1}, {10000, 100}} {
		for _, change := range []func(p *scenario.Parameters){nil, opening, waiting} {
			s.fanoutd(z, change)
			s.fanoutd(z, both(change, perStream(1)))
		}
	}
}

// Changes for plan.add.

func opening(p *scenario.Parameters) { p.Scenario, p.Keys = scenario.Open, 1 }

func perStream(watches int) func(p *scenario.Parameters) {
	return func(p *scenario.Parameters) { p.PerStream = watches }
}

// both makes several changes.
func both(changes ...func(p *scenario.Parameters)) func(p *scenario.Parameters) {
	return func(p *scenario.Parameters) {
		for _, change := range changes {
			if change != nil {
				change(p)
			}
		}
	}
}
