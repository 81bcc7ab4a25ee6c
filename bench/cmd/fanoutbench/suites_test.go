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

// fakeResults returns made-up results of all runs of a suite.
func fakeResults(name string) []*report.Group {
	var records []*scenario.Record
	for _, p := range suites[name].runs(time.Second) {
		p.Complete()
		summary := delivery.Summary{Count: 1, P50: 1, P99: 1, P999: 1, Max: 1}
		server := scenario.Server{CPU: 1, Total: 1 + int64(p.Watchers), Peak: 2, RSSBefore: 1, RSSIdle: 1, RSSEnd: 1, PerWatcher: 1, LiveLeft: 1, AnonIdle: 1, AnonEnd: 1}
		records = append(records, &scenario.Record{
			Parameters: p, Each: summary, Ack: summary, PerSecond: 1, Deliveries: 1, Changes: 1, Elapsed: time.Second, Servers: []scenario.Server{server},
			Cluster: &scenario.Cluster{Before: summary, Around: summary, AckOf: scenario.Lags{Before: summary, Around: summary}, Pauses: summary},
		})
	}
	return report.Groups(records)
}

// Exactly one suite that shows goals measures each goal.
func TestEveryGoalIsMeasuredByOneSuite(t *testing.T) {
	results := map[string][]*report.Group{}
	for name, suite := range suites {
		if suite.part.Goals {
			results[name] = fakeResults(name)
		}
	}
	for _, g := range report.Goals {
		var by []string
		for name, groups := range results {
			if _, _, ok := g.Measured(groups); ok {
				by = append(by, name)
			}
		}
		if len(by) != 1 {
			t.Errorf("%s (%s): measured by the suites %q, want one", g.What, g.Against, by)
		}
	}
}

func TestGrowthMeasuresEveryCurve(t *testing.T) {
	drawn := report.Drawn(fakeResults("growth"))
	for _, name := range report.Curves() {
		if !slices.Contains(drawn, name) {
			t.Errorf("curve %s has no points, want some", name)
		}
	}
}

// docs/dev/benchmarks.md has marker lines for each suite except core, whose results are not
// published.
func TestDocumentHasABlockForEverySuite(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(suites)) {
		part := suites[name].part
		part.Suite = name
		err := report.Check(filepath.Join("..", "..", "..", "docs", "dev", "benchmarks.md"), part)
		if (err == nil) != (name != "core") {
			t.Errorf("suite %s: got error %v, want one only for core", name, err)
		}
	}
}

func TestSuitesHaveValidRunsWithDistinctNames(t *testing.T) {
	for name, suite := range suites {
		seen := map[[4]string]bool{}
		for _, p := range suite.runs(time.Second) {
			p.Complete()
			if err := p.Validate(); err != nil {
				t.Errorf("%s: %s of %s: %v", name, report.Case(p), report.System(p), err)
			}
			row := [4]string{p.Scenario, report.Case(p), report.System(p), p.Duration.String()}
			if seen[row] {
				t.Errorf("%s: two runs are called %s", name, row)
			}
			seen[row] = true
		}
	}
}
