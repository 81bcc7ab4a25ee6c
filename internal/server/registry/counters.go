package registry

import (
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// latencyBounds are the upper bounds of the buckets for the time from the arrival of a change
// until gRPC has accepted the message. One event takes a fraction of a millisecond for one
// watch, and tens of milliseconds for ten thousand watches. Differences beyond ten seconds do
// not matter.
var latencyBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// batchBounds are the upper bounds of the buckets for the number of events in a message.
var batchBounds = [...]int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}

// Counters belong to one resource and one worker. They count the messages of the watches that
// this worker serves, including the messages that handlers send to these watches. Each
// counter is atomic, so counting takes no lock. Counting does not allocate memory, and two
// processors hardly ever write to the same counters.
type Counters struct {
	messages      atomic.Int64
	bytes         atomic.Int64
	catchUps      [object.CatchUpKinds][causes]atomic.Int64
	latency       [len(latencyBounds) + 1]atomic.Int64
	latencySum    atomic.Int64 // nanoseconds
	batches       [len(batchBounds) + 1]atomic.Int64
	liveEvents    atomic.Int64 // in live messages
	catchUpEvents atomic.Int64 // in the parts of catch-ups

	_ [64]byte // keeps the counters of the next worker in another cache line
}

// Cause is why a catch-up began.
type Cause uint8

// The causes.
const (
	CauseBegin  Cause = iota // the watch began with the catch-up
	CauseBehind              // any later catch-up: the watch fell behind, the server lost changes, the epoch changed, or a catch-up started over
	causes
)

// Note counts a message that was sent to n watches and took some bytes altogether. The argument
// first reports whether the message is the first one of these watches.
func (c *Counters) Note(m *feed.Message, n, bytes int, first bool, now time.Time) {
	c.messages.Add(int64(n))
	c.bytes.Add(int64(bytes))
	switch m.Header.Kind {
	case object.CatchUpBegin:
		cause := CauseBehind
		if first {
			cause = CauseBegin
		}
		c.catchUps[m.Header.CatchUp][cause].Add(int64(n))
	case object.Live:
		c.noteLive(m, int64(n), now)
	case object.CatchUpPart:
		c.catchUpEvents.Add(int64(n * m.Count))
	}
}

// Events returns the number of events in the messages.
func (c *Counters) Events() int64 { return c.liveEvents.Load() + c.catchUpEvents.Load() }

func (c *Counters) noteLive(m *feed.Message, n int64, now time.Time) {
	i := 0
	for i < len(batchBounds) && m.Count > batchBounds[i] {
		i++
	}
	c.batches[i].Add(n)
	c.liveEvents.Add(n * int64(m.Count))
	if m.Arrived.IsZero() {
		return
	}
	took := max(now.Sub(m.Arrived), 0) // the given time may be a little old
	i = 0
	for i < len(latencyBounds) && took > latencyBounds[i] {
		i++
	}
	c.latency[i].Add(n)
	c.latencySum.Add(n * int64(took))
}

// Distribution is a histogram.
type Distribution struct {
	Bounds []float64 // upper bounds of the buckets, ascending
	Counts []int64   // number of values in each bucket; one more bucket has the values above all bounds
	Sum    float64   // sum of all values
}

func (d *Distribution) add(counts []atomic.Int64, sum float64) {
	for i := range counts {
		d.Counts[i] += counts[i].Load()
	}
	d.Sum += sum
}

// Counts are the totals of the watches of a resource since the server started. They never
// decrease.
type Counts struct {
	Begun    int64 // number of watches that have begun
	Messages int64
	Events   int64
	Bytes    int64
	CatchUps [object.CatchUpKinds][causes]int64 // by kind and cause

	// Latency is the time in seconds from the arrival of the first change of a live message
	// until gRPC accepted the message.
	Latency Distribution

	// Batches are the numbers of events in live messages.
	Batches Distribution

	// ReportedErrors is the number of errors that clients have reported. Reports that repeat
	// an error do not count.
	ReportedErrors int64
}

func newCounts() Counts {
	c := Counts{
		Latency: Distribution{Counts: make([]int64, len(latencyBounds)+1)},
		Batches: Distribution{Counts: make([]int64, len(batchBounds)+1)},
	}
	for _, b := range latencyBounds {
		c.Latency.Bounds = append(c.Latency.Bounds, b.Seconds())
	}
	for _, b := range batchBounds {
		c.Batches.Bounds = append(c.Batches.Bounds, float64(b))
	}
	return c
}

// add adds the counters of one worker.
func (c *Counts) add(t *Counters) {
	c.Messages += t.messages.Load()
	c.Bytes += t.bytes.Load()
	c.Events += t.Events()
	for kind := range t.catchUps {
		for cause := range t.catchUps[kind] {
			c.CatchUps[kind][cause] += t.catchUps[kind][cause].Load()
		}
	}
	c.Latency.add(t.latency[:], time.Duration(t.latencySum.Load()).Seconds())
	c.Batches.add(t.batches[:], float64(t.liveEvents.Load()))
}

// Counters returns the counters of a resource and a worker.
func (r *Registry) Counters(resource string, worker int) *Counters {
	return &r.counters[resource][worker]
}
