package backend

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// WriteTracer follows single writes of a resource until they are delivered to watches.
type WriteTracer interface {
	// Writing is called before a write is sent to the store, and done when the store has
	// answered: with the revision of the write, or 0 if nothing was written.
	Writing(ctx context.Context) (done func(object.Revision))

	// Wants reports whether a write is being followed. It is called for each message of each
	// watch, so it must cost no more than an atomic load.
	Wants() bool

	// Delivered is called when a live message has been handed to the network, while Wants
	// returns true.
	Delivered(Delivery)
}

// Delivery describes a live message that was delivered.
type Delivery struct {
	Watch   context.Context // of the request
	Watcher string          // its id, as AdminService has it
	Peer    string

	// The message has the events of the watch after the revision After, up to and including
	// Upto. Shows reports whether the watch sees an event of a revision; it may be called at
	// any time and from any goroutine.
	After, Upto object.Revision
	Shows       func(object.Revision) bool

	// Others is the number of further watches that got the same message, on the same stream. They
	// are counted.
	Others int

	Events  int
	Bytes   int
	Arrived time.Time // when the first change came from the store
	Sent    time.Time
}
