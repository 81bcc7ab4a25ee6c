package main

import (
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/copies"
)

// Each client for Go loads all objects, and receives a change of each. Other languages need packages, which
// make bench-copies installs.
func TestCopiesAreMeasured(t *testing.T) {
	for _, p := range copies.Programs(programs.Self, "../../..") {
		if p.Language != "Go" {
			continue
		}
		t.Run(p.Library, func(t *testing.T) {
			t.Parallel()
			r, err := copies.Measure(t.Context(), programs, p, 300)
			if err != nil {
				t.Fatal(err)
			}
			if r.LoadCPU <= 0 || r.ChangeCPU <= 0 || r.Memory <= 0 || r.MemoryAfter <= 0 {
				t.Errorf("got %+v, want CPU time and memory", r)
			}
		})
	}
}
