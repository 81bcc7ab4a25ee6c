// Package ratio relates benchmarks to each other. What a benchmark takes depends on the
// machine; how many times as much as a smaller one, which runs beside it, does not.
package ratio

import (
	"slices"
	"testing"
)

// Row is a number of benchmarks that differ in one size. The zero value is an empty one.
type Row struct {
	name  string
	first []float64 // nanoseconds of the first one, for each time that it has run
}

// Report adds to the results of a benchmark, when its loop is over, how many times as
// much it takes as the first one of the row: its median, where it has run several times.
func (r *Row) Report(b *testing.B) {
	b.Helper()
	took := float64(b.Elapsed()) / float64(b.N)
	if r.name == "" {
		r.name = b.Name()
	}
	if r.name == b.Name() {
		r.first = append(r.first, took)
		slices.Sort(r.first)
	}
	b.ReportMetric(took/r.first[len(r.first)/2], "x-first")
}
