package main

import (
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// All objects are there after a restart of the server.
func TestObjectsSurviveARestart(t *testing.T) {
	for _, name := range []string{"fanoutd", "fanoutd-embedded", "etcd", "etcd-embedded", "nats-kv"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := smallRun(name, load.ClientRaw)
			p.Scenario, p.Keys, p.Batch, p.Watchers = scenario.State, 2000, 1, 0
			r, err := scenario.Run(t.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			front := r.Servers[len(r.Servers)-1]
			if r.Elapsed <= 0 || front.AnonIdle == 0 || front.AnonEnd == 0 || front.Total <= 0 || r.Servers[0].Peak == 0 {
				t.Errorf("got incomplete measurements: %+v", r)
			}
		})
	}
}
