package load

import "github.com/fanoutd/fanoutd/bench/internal/delivery"

// Message is a message of the process.
type Message struct {
	Ready     bool    `json:"ready,omitempty"`     // all watchers are registered, or connected if they are held back
	Error     string  `json:"error,omitempty"`     // why the process failed
	Completed int64   `json:"completed,omitempty"` // number of events that all their watchers have received
	Reset     bool    `json:"reset,omitempty"`     // confirms the command
	Report    *Report `json:"report,omitempty"`    // the last message
}

// Report is the report of all watchers.
type Report struct {
	delivery.Report
	Ended    int    `json:"ended"`              // watches that ended too early
	Reason   string `json:"reason,omitempty"`   // why the first of them ended
	Returned int64  `json:"returned,omitempty"` // reconnections of stalled watchers
	CPU      int64  `json:"cpu_us"`             // CPU time of the process
	Peak     int64  `json:"rss_peak"`           // largest memory of the process, in bytes
}

// Command is a command to the process. Exactly one field is set.
type Command struct {
	Watch  bool     `json:"watch,omitempty"`  // register the watches that were held back
	Reset  bool     `json:"reset,omitempty"`  // drop the recorded times
	Report []uint32 `json:"report,omitempty"` // end and report; the number of changes of each key
}
