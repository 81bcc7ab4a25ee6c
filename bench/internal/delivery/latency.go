package delivery

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// slowest is the largest time that is recorded; longer times count as this one.
const slowest = 2 * time.Minute

// Latency is a distribution of times with three significant digits, in microseconds.
type Latency struct{ histogram *hdrhistogram.Histogram }

// NewLatency returns an empty distribution. It is not safe for concurrent use.
func NewLatency() Latency {
	return Latency{hdrhistogram.New(1, slowest.Microseconds(), 3)}
}

// Record adds a time in nanoseconds.
func (l Latency) Record(ns int64) {
	_ = l.histogram.RecordValue(min(max(ns/1000, 1), slowest.Microseconds()))
}

// Merge adds all times of another distribution.
func (l Latency) Merge(other Latency) { l.histogram.Merge(other.histogram) }

// Reset removes all times.
func (l Latency) Reset() { l.histogram.Reset() }

// Summary returns a summary of the times.
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

// Summary is a summary of a distribution, in microseconds.
type Summary struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50_us"`
	P99   int64 `json:"p99_us"`
	P999  int64 `json:"p999_us"`
	Max   int64 `json:"max_us"`
}
