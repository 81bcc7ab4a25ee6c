package load

import "github.com/fanoutd/fanoutd/bench/internal/tally"

// Message is what the process says.
type Message struct {
	Ready     bool    `json:"ready,omitempty"`     // all watchers are registered; if they are held back, all connections are there
	Error     string  `json:"error,omitempty"`     // why they are not, or what else went wrong
	Completed int64   `json:"completed,omitempty"` // so many events have come to all their watchers
	Reset     bool    `json:"reset,omitempty"`     // the command was followed
	Report    *Report `json:"report,omitempty"`    // the last message
}

// Report is what the watchers received.
type Report struct {
	tally.Report
	Ended    int    `json:"ended"`              // watchers that the server or the client has ended
	Reason   string `json:"reason,omitempty"`   // why the first of them
	Returned int64  `json:"returned,omitempty"` // connections that have stalled, left and come again
	CPU      int64  `json:"cpu_us"`             // of the process
}

// Command is what the process is told. One of the fields is set.
type Command struct {
	Watch  bool     `json:"watch,omitempty"`  // register the watches that were held back
	Reset  bool     `json:"reset,omitempty"`  // forget the times until now
	Report []uint32 `json:"report,omitempty"` // so many changes of each key were written: end and report
}
