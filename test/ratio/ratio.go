// Package ratio relates benchmarks to each other. The time of a benchmark depends on the
// machine; its ratio to a smaller one that runs beside it does not.
package ratio

import (
	"slices"
	"testing"
)

// Row is a row of benchmarks that differ in one size. The zero value is an empty row.
type Row struct {
	name  string
	first []float64 // nanoseconds of each run of the first benchmark
}

// Report adds the ratio to the first benchmark of the row to the results of a benchmark,
// after its loop. It uses the median if the first one has run several times.
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
