package main

import (
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/calls"
	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// Every call is answered, with every method of every peer.
func TestCallsAreAnswered(t *testing.T) {
	all := []string{calls.MethodGet, calls.MethodGetAny, calls.MethodPut}
	for name, methods := range map[string][]string{
		"fanoutd": all, "etcd": all, "fanoutd-embedded": {calls.MethodPut}, "etcd-embedded": {calls.MethodPut},
		"nats-kv": {calls.MethodGet, calls.MethodPut}, "grpc": {calls.MethodEmpty},
	} {
		for _, method := range methods {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				p := smallRun(name, load.ClientRaw)
				p.Scenario, p.Method, p.Batch, p.Watchers, p.Outstanding, p.Connections = scenario.Calls, method, 1, 0, 6, 2
				p.DefaultLimits, p.History = name == "fanoutd", name == "fanoutd-embedded"
				r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
				if err != nil {
					t.Fatal(err)
				}
				front := r.Servers[len(r.Servers)-1]
				if r.Deliveries == 0 || r.Each.Count != r.Deliveries || front.Total <= 0 || r.ClientCPU <= 0 {
					t.Errorf("got incomplete measurements: %+v", r)
				}
			})
		}
	}
}

// A call that fails, or whose answer lacks the value, ends the run.
func TestCallsThatFailEndTheRun(t *testing.T) {
	for _, name := range []string{"etcd", "fanoutd", "nats-kv"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			system, err := peer.Start(t.Context(), name, peer.Options{Programs: programs})
			if err != nil {
				t.Fatal(err)
			}
			defer system.Stop()
			protocol, err := peer.Protocol(name)
			if err != nil {
				t.Fatal(err)
			}
			caller, err := calls.Start(t.Context(), programs.Self, calls.Config{
				Protocol: protocol, Address: system.Address, Method: calls.MethodGet, Connections: 1, InFlight: 1, Keys: 1, ValueSize: 256,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer caller.Stop()
			if report, err := caller.For(t.Context(), time.Millisecond); err == nil {
				t.Errorf("got %+v for a key that does not exist, want an error", report)
			}
		})
	}
}
