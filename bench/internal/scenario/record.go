package scenario

import (
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/machine"
	"github.com/fanoutd/fanoutd/bench/internal/tally"
)

// Record is what is told of a run: a line of JSON.
type Record struct {
	Time       time.Time       `json:"time"`
	Machine    machine.Machine `json:"machine"`
	Notes      []string        `json:"notes,omitempty"`
	Suite      string          `json:"suite,omitempty"`   // that the run is one of
	Command    string          `json:"command,omitempty"` // with which the suite was measured
	Parameters Parameters      `json:"parameters"`

	Writes     int64         `json:"writes"`             // of the whole run, each of Batch events
	Expected   int64         `json:"expected"`           // deliveries of the whole run, from the first write on
	Counts     tally.Counts  `json:"counts"`             // what became of them
	Ended      int           `json:"ended"`              // watchers that did not last
	Reason     string        `json:"reason,omitempty"`   // why the first of them
	Returned   int64         `json:"returned,omitempty"` // connections of stalled watchers that have left and come again
	Gone       int           `json:"gone,omitempty"`     // stalled watchers that were cut off
	Stalled    string        `json:"stalled,omitempty"`  // why the run ended before its time
	Behind     int64         `json:"behind,omitempty"`   // paced writes that were due and could not begin
	Elapsed    time.Duration `json:"elapsed_ns"`         // of what is measured: until the last delivery
	Changes    int64         `json:"changes,omitempty"`  // of what is measured, where changes are written then
	Deliveries int64         `json:"deliveries"`         // of what is measured
	PerSecond  float64       `json:"deliveries_per_second"`
	Each       tally.Summary `json:"each"` // from writing to each watcher
	Last       tally.Summary `json:"last"` // from writing to the last watcher
	Ack        tally.Summary `json:"ack"`  // from writing to the acknowledgement
	Servers    []Server      `json:"servers"`
	ClientCPU  float64       `json:"client_cpu_us"` // per delivery, of the watching process, of the whole run
}

// Server is what one server process has cost.
type Server struct {
	Name           string  `json:"name"`
	CPU            float64 `json:"cpu_us"`                    // per delivery
	Total          int64   `json:"cpu_total_us"`              // of what is measured
	Peak           int64   `json:"rss_peak"`                  // bytes, the most during what is measured; since the start of the server where that is not known
	Writes         float64 `json:"writes"`                    // system calls per delivery
	Bytes          float64 `json:"bytes"`                     // written per delivery
	RSSEmpty       int64   `json:"rss_empty"`                 // bytes, before the watchers
	RSSIdle        int64   `json:"rss_idle"`                  // bytes, with the watchers, before the first write
	RSSBefore      int64   `json:"rss_before"`                // bytes, immediately before what is measured
	RSSEnd         int64   `json:"rss_end"`                   // bytes, after the last delivery
	RSSLeft        int64   `json:"rss_left,omitempty"`        // bytes, when the watchers have left
	LiveLeft       int64   `json:"live_left,omitempty"`       // bytes of the heap that are in use then, behind a garbage collection, where the server tells
	GoroutinesLeft float64 `json:"goroutines_left,omitempty"` // of them that are still there then
	AnonEmpty      int64   `json:"anon_empty"`                // the same without what is a file's
	AnonIdle       int64   `json:"anon_idle"`
	AnonEnd        int64   `json:"anon_end"`
	PerWatcher     float64 `json:"rss_per_watcher"`        // bytes, of an idle one
	Goroutines     float64 `json:"goroutines_per_watcher"` // of an idle one, where the server tells; else 0
}

// CPU returns what all servers together have used per delivery, in microseconds.
func (r *Record) CPU() float64 {
	sum := 0.0
	for _, s := range r.Servers {
		sum += s.CPU
	}
	return sum
}
