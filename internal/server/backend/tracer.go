package backend

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// WriteTracer follows single writes of a resource to the watches that are told about them.
type WriteTracer interface {
	// Writing says that a write is about to be sent to the store. What it returns is
	// called when the store has answered, with revision 0 where nothing was written.
	Writing(ctx context.Context) (done func(object.Revision))

	// Wants reports whether a write is being followed. It is asked for each message of
	// each watch, so it costs no more than an atomic load.
	Wants() bool

	// Delivered says that a live message was handed to the network. It is called only
	// while somebody wants to know.
	Delivered(Delivery)
}

// Delivery is a live message.
type Delivery struct {
	Watch   context.Context // of the request
	Watcher string          // its id, as AdminService has it
	Peer    string

	// The message tells what happened after the one revision, up to the other, as far
	// as the watch sees it. Shows reports whether it sees what happened at a revision;
	// it may be called at any time and from any goroutine.
	After, Upto object.Revision
	Shows       func(object.Revision) bool

	Events  int
	Bytes   int
	Arrived time.Time // the first of the changes, from the store
	Sent    time.Time
}
