package feed

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Message is one message of a watch. Watches share the encoded events and must not modify
// them.
type Message struct {
	Events [][]byte // the encoded events; a piece may have several of them
	Count  int      // the number of events
	Header object.Header

	// Arrived is when the first of the changes came from the store. It is zero if this time
	// is unknown or the message is not live. The events of a catch-up have waited for an
	// absent client, so they do not show the latency of the server.
	Arrived time.Time
}

// Size returns the Size of the events.
func (m *Message) Size() int {
	n := 0
	for _, piece := range m.Events {
		n += len(piece)
	}
	return n
}
