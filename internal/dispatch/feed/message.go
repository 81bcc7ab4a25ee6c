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

// MinStatedAge is the lowest age that a message states. Nearly all messages are sent right
// after the store has confirmed their content, so they need no bytes for an age.
const MinStatedAge = time.Second

// StatedAge returns the [object.Header.Age] of a message. The argument confirmed is a
// time at which the server had everything that the store had.
func StatedAge(confirmed, now time.Time) time.Duration {
	if age := now.Sub(confirmed); age >= MinStatedAge {
		return age
	}
	return 0
}

// StatedAge returns the [object.Header.Age] of a bookmark that is sent now.
func (fs *Feeds) StatedAge(now time.Time) time.Duration {
	return StatedAge(fs.Config.Source.Confirmed(), now)
}

// LiveAge returns the [object.Header.Age] of a live message that is made now. If more events
// wait for the watch, the message does not lead to the newest state. The client then has
// everything that the server knew when the first event of the message arrived, but perhaps
// nothing later.
func (fs *Feeds) LiveAge(now, firstArrived time.Time, more bool) time.Duration {
	confirmed := fs.Config.Source.Confirmed()
	if more && firstArrived.Before(confirmed) {
		confirmed = firstArrived
	}
	return StatedAge(confirmed, now)
}
