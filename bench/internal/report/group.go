package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// Group is the records of runs with the same parameters.
type Group struct {
	Parameters scenario.Parameters // Repeat is 0
	Records    []*scenario.Record
}

// Read reads lines of JSON.
func Read(r io.Reader) ([]*scenario.Record, error) {
	var all []*scenario.Record
	for lines := json.NewDecoder(r); ; {
		record := new(scenario.Record)
		if err := lines.Decode(record); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read record %d: %w", len(all)+1, err)
		}
		all = append(all, record)
	}
}

// Groups groups records by their parameters, in the order of the first run of each group.
func Groups(records []*scenario.Record) []*Group {
	var groups []*Group
	index := map[scenario.Parameters]*Group{}
	for _, r := range records {
		p := r.Parameters
		p.Repeat = 0
		g, ok := index[p]
		if !ok {
			g = &Group{Parameters: p}
			index[p] = g
			groups = append(groups, g)
		}
		g.Records = append(g.Records, r)
	}
	return groups
}

// Figure is a number of a run.
type Figure func(*scenario.Record) float64

// Range is the median and the extremes of a figure over several runs.
type Range struct{ Least, Median, Most float64 }

// Range returns the range of a figure.
func (g *Group) Range(f Figure) Range {
	values := make([]float64, len(g.Records))
	for i, r := range g.Records {
		values[i] = f(r)
	}
	return rangeOf(values)
}

// rangeOf returns the range of at least one value, which it sorts.
func rangeOf(values []float64) Range {
	slices.Sort(values)
	n := len(values)
	return Range{values[0], (values[(n-1)/2] + values[n/2]) / 2, values[n-1]}
}

// front returns the server that watchers connect to.
func front(r *scenario.Record) scenario.Server { return r.Servers[len(r.Servers)-1] }

// The figures of a run that are compared.
var (
	CPU       Figure = (*scenario.Record).CPU // µs per delivery of all servers
	FrontCPU  Figure = func(r *scenario.Record) float64 { return front(r).CPU }
	PerSecond Figure = func(r *scenario.Record) float64 { return r.PerSecond }
	Writes    Figure = func(r *scenario.Record) float64 { return front(r).Writes }
	Bytes     Figure = func(r *scenario.Record) float64 { return front(r).Bytes }
	EachP50   Figure = func(r *scenario.Record) float64 { return float64(r.Each.P50) }
	EachP99   Figure = func(r *scenario.Record) float64 { return float64(r.Each.P99) }
	EachMax   Figure = func(r *scenario.Record) float64 { return float64(r.Each.Max) }
	AckP50    Figure = func(r *scenario.Record) float64 { return float64(r.Ack.P50) }
	AckP99    Figure = func(r *scenario.Record) float64 { return float64(r.Ack.P99) }
	Seconds   Figure = func(r *scenario.Record) float64 { return r.Elapsed.Seconds() }
	ClientCPU Figure = func(r *scenario.Record) float64 { return r.ClientCPU }
	TotalCPU  Figure = func(r *scenario.Record) float64 { // seconds, of all servers
		sum := 0.0
		for _, s := range r.Servers {
			sum += float64(s.Total) / 1e6
		}
		return sum
	}
	FrontTotal Figure = func(r *scenario.Record) float64 { return float64(front(r).Total) / 1e6 }
	Growth     Figure = func(r *scenario.Record) float64 { return float64(front(r).Peak - front(r).RSSBefore) } // bytes, during the measurement
	Resident   Figure = func(r *scenario.Record) float64 { return float64(front(r).RSSIdle) }                   // bytes
	Left       Figure = func(r *scenario.Record) float64 { return float64(front(r).RSSLeft) }                   // bytes
	Peak       Figure = func(r *scenario.Record) float64 { return float64(front(r).Peak) }                      // bytes
	// PerWatch is the memory of the front server per idle watcher, in bytes.
	PerWatch Figure = func(r *scenario.Record) float64 { return front(r).PerWatcher }
	// Kept is what the front server keeps when all have left, in bytes.
	Kept        Figure = func(r *scenario.Record) float64 { return float64(front(r).RSSLeft - front(r).RSSEmpty) }
	WatchesLeft Figure = func(r *scenario.Record) float64 { return front(r).WatchesLeft }
	ClientPeak  Figure = func(r *scenario.Record) float64 { return float64(r.ClientPeak) } // bytes
	// CPUPerWrite is the CPU time of the front server per write, in microseconds.
	CPUPerWrite Figure = func(r *scenario.Record) float64 {
		return float64(front(r).Total) / float64(max(r.Changes, 1)) * float64(r.Parameters.Batch)
	}
	Remaining Figure = func(r *scenario.Record) float64 { return front(r).GoroutinesLeft }
	IdleCPU   Figure = func(r *scenario.Record) float64 { // milliseconds per second of all servers
		return TotalCPU(r) * 1000 / r.Parameters.Duration.Seconds()
	}
	Goroutines Figure = func(r *scenario.Record) float64 { return front(r).Goroutines }
	Memory     Figure = func(r *scenario.Record) float64 { // bytes per idle watcher of all servers
		sum := 0.0
		for _, s := range r.Servers {
			sum += s.PerWatcher
		}
		return sum
	}
)

// otherGoroutines is the number of goroutines that a server may have more than before its watchers
// came, for other reasons.
const otherGoroutines = 20

// Wrong describes lost, duplicate or unordered events in any of the runs, and what remained of
// watches that have left, or is "".
func (g *Group) Wrong() string {
	var lost, duplicate, disordered, foreign, ended, stalled, watches, goroutines int64
	for _, r := range g.Records {
		lost += r.Counts.Lost
		duplicate += r.Counts.Duplicate
		disordered += r.Counts.OutOfOrder
		foreign += r.Counts.Foreign
		ended += int64(r.Ended)
		if r.Stalled != "" {
			stalled++
		}
		watches += int64(front(r).WatchesLeft)
		if left := int64(front(r).GoroutinesLeft); left > otherGoroutines {
			goroutines += left
		}
	}
	var parts []string
	for _, n := range []struct {
		what  string
		count int64
	}{
		{"lost", lost},
		{"duplicate", duplicate},
		{"out of order", disordered},
		{"foreign", foreign},
		{"ended", ended},
		{"stalled", stalled},
		{"watches left", watches},
		{"goroutines left", goroutines},
	} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	return strings.Join(parts, ", ")
}
