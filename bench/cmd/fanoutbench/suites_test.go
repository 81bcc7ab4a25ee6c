package main

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// asIf returns what a suite could have measured.
func asIf(name string) []*report.Group {
	var records []*scenario.Record
	for _, p := range suites[name].runs(time.Second) {
		p.Complete()
		some := delivery.Summary{Count: 1, P50: 1, P99: 1, P999: 1, Max: 1}
		server := scenario.Server{CPU: 1, Total: 1, Peak: 2, RSSBefore: 1, RSSIdle: 1, PerWatcher: 1, LiveLeft: 1}
		records = append(records, &scenario.Record{
			Parameters: p, Each: some, Ack: some, PerSecond: 1, Deliveries: 1, Changes: 1, Elapsed: time.Second, Servers: []scenario.Server{server},
		})
	}
	return report.Groups(records)
}

// What we want is measured by one of the suites that the document is made of.
func TestEveryGoalIsMeasured(t *testing.T) {
	short, goals := asIf("short"), asIf("goals")
	for _, g := range report.Goals {
		_, _, a := g.Measured(short)
		_, _, b := g.Measured(goals)
		if a == b {
			t.Errorf("%s (%s): short %v, goals %v", g.What, g.Against, a, b)
		}
	}
}

// Every curve has points in the suite that is for them.
func TestEveryCurveIsMeasured(t *testing.T) {
	drawn := report.Drawn(asIf("growth"))
	for _, name := range report.Curves() {
		if !slices.Contains(drawn, name) {
			t.Errorf("%s has no points", name)
		}
	}
}

// The document has a place for each suite but the one that is only for looking.
func TestTheDocumentHasAPlaceForEverySuite(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(suites)) {
		part := suites[name].part
		part.Suite = name
		err := report.Check(filepath.Join("..", "..", "..", "docs", "benchmarks.md"), part)
		if (err == nil) != (name != "core") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No suite has a run that cannot be made, or one twice.
func TestSuites(t *testing.T) {
	for name, suite := range suites {
		seen := map[scenario.Parameters]bool{}
		for _, p := range suite.runs(time.Second) {
			p.Complete()
			if err := p.Validate(); err != nil {
				t.Errorf("%s: %s of %s: %v", name, report.Case(p), report.Who(p), err)
			}
			if seen[p] {
				t.Errorf("%s: %s of %s is there twice", name, report.Case(p), report.Who(p))
			}
			seen[p] = true
		}
	}
}
