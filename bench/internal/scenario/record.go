package scenario

import (
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/machine"
)

// Record is the result of a run: a line of JSON.
type Record struct {
	Time       time.Time       `json:"time"`
	Machine    machine.Machine `json:"machine"`
	Notes      []string        `json:"notes,omitempty"`
	Suite      string          `json:"suite,omitempty"`   // the suite of the run
	Command    string          `json:"command,omitempty"` // the command line of the suite
	Parameters Parameters      `json:"parameters"`

	Writes     int64            `json:"writes"`             // in the whole run, Batch events each
	Expected   int64            `json:"expected"`           // deliveries in the whole run, from the first write on
	Counts     delivery.Counts  `json:"counts"`             // outcomes of the deliveries
	Ended      int              `json:"ended"`              // watches that ended too early
	Reason     string           `json:"reason,omitempty"`   // why the first of them ended
	Returned   int64            `json:"returned,omitempty"` // reconnections of stalled watchers
	Gone       int              `json:"gone,omitempty"`     // stalled watchers that the server cut off
	Stalled    string           `json:"stalled,omitempty"`  // why the run ended too early
	Behind     int64            `json:"behind,omitempty"`   // paced writes that could not begin in time
	Elapsed    time.Duration    `json:"elapsed_ns"`         // of the measurement, until the last delivery
	Changes    int64            `json:"changes,omitempty"`  // during the measurement
	Deliveries int64            `json:"deliveries"`         // during the measurement
	PerSecond  float64          `json:"deliveries_per_second"`
	Each       delivery.Summary `json:"each"` // from writing to each watcher
	Last       delivery.Summary `json:"last"` // from writing to the last watcher
	Ack        delivery.Summary `json:"ack"`  // from writing to the acknowledgement
	Servers    []Server         `json:"servers"`
	Cluster    *Cluster         `json:"cluster,omitempty"` // of the scenarios of clusters
	ClientCPU  float64          `json:"client_cpu_us"`     // per delivery, of the watching process, in the whole run
	ClientPeak int64            `json:"client_rss_peak"`   // bytes, of the watching process
}

// Server is the cost of one server process.
type Server struct {
	Name           string  `json:"name"`
	CPU            float64 `json:"cpu_us"`                    // per delivery
	Total          int64   `json:"cpu_total_us"`              // during the measurement
	Peak           int64   `json:"rss_peak"`                  // bytes; maximum during the measurement, or since the start of the server if that is unknown
	Writes         float64 `json:"writes"`                    // system calls per delivery
	Bytes          float64 `json:"bytes"`                     // written per delivery
	RSSEmpty       int64   `json:"rss_empty"`                 // bytes, before the watchers
	RSSIdle        int64   `json:"rss_idle"`                  // bytes, with the watchers, before the first write
	RSSBefore      int64   `json:"rss_before"`                // bytes, immediately before the measurement
	RSSEnd         int64   `json:"rss_end"`                   // bytes, after the last delivery
	RSSLeft        int64   `json:"rss_left,omitempty"`        // bytes, after the watchers have left
	LiveLeft       int64   `json:"live_left,omitempty"`       // bytes of live heap at that time, after a garbage collection, if the server reports it
	GoroutinesLeft float64 `json:"goroutines_left,omitempty"` // goroutines of watchers that remain at that time
	Reported       float64 `json:"reported,omitempty"`        // watches that have reported, at the end of the measurement
	WatchesLeft    float64 `json:"watches_left,omitempty"`    // watches that remain at that time, if the server counts them
	AnonEmpty      int64   `json:"anon_empty"`                // anonymous memory, before the watchers
	AnonIdle       int64   `json:"anon_idle"`
	AnonEnd        int64   `json:"anon_end"`
	PerWatcher     float64 `json:"rss_per_watcher"`        // bytes per idle watcher
	Goroutines     float64 `json:"goroutines_per_watcher"` // per idle watcher; 0 if the server does not report it
}

// Cluster has the results of the scenarios of clusters.
type Cluster struct {
	Before   delivery.Summary `json:"before"`    // from writing to a subscriber, before the kills
	Around   delivery.Summary `json:"around"`    // the same after the kills
	AckOf    Lags             `json:"after_ack"` // from the acknowledgement to a subscriber
	Pauses   delivery.Summary `json:"pauses"`    // the longest time without an acknowledged write, of each writer after each kill
	Failed   int64            `json:"failed"`    // writes without an acknowledgement
	Refused  int64            `json:"refused"`   // those of them that are known not to be applied
	Elected  int64            `json:"elected"`   // leaders that were elected during the measurement
	Replaced int64            `json:"replaced"`  // states that a subscriber got instead of events
}

// Lags are times before and after the kills.
type Lags struct {
	Before delivery.Summary `json:"before"`
	Around delivery.Summary `json:"around"`
}

// CPU returns the CPU time of all servers per delivery, in microseconds.
func (r *Record) CPU() float64 {
	sum := 0.0
	for _, s := range r.Servers {
		sum += s.CPU
	}
	return sum
}
