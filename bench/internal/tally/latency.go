package tally

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// slowest is the longest time that is told apart.
const slowest = 2 * time.Minute

// Latency is a distribution of times with three significant digits, in microseconds.
type Latency struct{ histogram *hdrhistogram.Histogram }

// NewLatency returns an empty one. It is not safe for concurrent use.
func NewLatency() Latency {
	return Latency{hdrhistogram.New(1, slowest.Microseconds(), 3)}
}

// Record adds a time in nanoseconds.
func (l Latency) Record(ns int64) {
	_ = l.histogram.RecordValue(min(max(ns/1000, 1), slowest.Microseconds()))
}

// Merge adds all times of another one.
func (l Latency) Merge(other Latency) { l.histogram.Merge(other.histogram) }

// Reset forgets all.
func (l Latency) Reset() { l.histogram.Reset() }

// Summary returns what is told of them.
func (l Latency) Summary() Summary {
	h := l.histogram
	if h.TotalCount() == 0 {
		return Summary{}
	}
	return Summary{
		Count: h.TotalCount(),
		P50:   h.ValueAtQuantile(50),
		P99:   h.ValueAtQuantile(99),
		P999:  h.ValueAtQuantile(99.9),
		Max:   h.Max(),
	}
}

// Summary is what is told of a distribution; times are in microseconds.
type Summary struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50_us"`
	P99   int64 `json:"p99_us"`
	P999  int64 `json:"p999_us"`
	Max   int64 `json:"max_us"`
}
