package main

import (
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/calls"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// called measures unary calls beside those of other stores, and opens watches with the limits that
// fanoutd has by default.
func called(duration time.Duration) []scenario.Parameters {
	s := &plan{duration: duration}
	for _, call := range []struct {
		method string
		atOnce int
		peers  []string
	}{
		{calls.MethodPut, 16, stores},
		{calls.MethodPut, 64, stores},
		{calls.MethodGet, 1, stores},
		{calls.MethodGet, 64, stores},
		{calls.MethodGetAny, 64, []string{"etcd", "fanoutd", "fanoutd-embedded"}},
		{calls.MethodEmpty, 64, []string{"grpc"}},
	} {
		s.add(size{0, 1}, call.peers, calling(call.method, call.atOnce))
	}
	s.fanoutd(size{0, 1}, both(calling(calls.MethodGetAny, 64), limited))
	for _, written := range []func(*scenario.Parameters){large, toOneKey, largest} {
		for _, history := range []func(*scenario.Parameters){nil, recorded} {
			s.add(size{0, 1}, []string{"fanoutd", "fanoutd-embedded"}, both(calling(calls.MethodPut, 16), written, history))
		}
	}
	z := size{10000, 100}
	s.add(z, []string{"etcd"}, both(opening, perStream(100)))
	s.fanoutd(z, both(opening, perStream(100), limited))
	return s.runs
}

// stores are the systems that keep values.
var stores = []string{"etcd", "fanoutd", "fanoutd-embedded", "etcd-embedded", "nats-kv"}

// Changes for plan.add.

// calling makes calls to a thousand keys.
func calling(method string, atOnce int) func(p *scenario.Parameters) {
	return func(p *scenario.Parameters) {
		p.Scenario, p.Method, p.Outstanding, p.Keys = scenario.Calls, method, atOnce, 1000
	}
}

// toOneKey makes all calls to the same key.
func toOneKey(p *scenario.Parameters) { large(p); p.Keys = 1 }

// largest has more bytes in flight than a server allows on a connection.
func largest(p *scenario.Parameters) { p.ValueSize = 64 << 10 }

// recorded gives fanoutd a history.
func recorded(p *scenario.Parameters) { p.History = true }

// limited gives fanoutd its default limits.
func limited(p *scenario.Parameters) { p.DefaultLimits = true }
