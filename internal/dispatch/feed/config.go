package feed

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/work"
)

// Source is the cacher of the resource, from which the changes come.
type Source interface {
	// State returns the newest state, or nil before the first one.
	State() *cacher.State
	// Ready returns a channel that is closed when there is a state.
	Ready() <-chan struct{}
	// Following reports whether the state keeps up with the store.
	Following() bool
	// Confirmed returns a time at which the state had everything that the store had.
	Confirmed() time.Time
	// Advance asks the store for its revision, so that the position of the state advances
	// even if nothing changes.
	Advance()
}

// Encoder encodes events.
type Encoder interface {
	// AppendEvent appends the event as the projection shows it, and returns the extended
	// slice.
	AppendEvent(b []byte, e object.Event, p object.Projection) []byte
	// AddedEvent returns the encoded ADDED event of an object. The bytes may be shared and
	// must not be modified.
	AddedEvent(o *object.Object, p object.Projection) []byte
}

// Config configures the feeds of a resource, and the catch-ups of their watches. Source and Encoder are required.
type Config struct {
	Source  Source
	Encoder Encoder

	// MessageBytes limits the size of the events in one message. An event above the limit
	// gets a message of its own. Default 1 MiB. By default, gRPC clients accept messages of
	// up to 4 MiB, so an event above the limit usually reaches them, too.
	MessageBytes int

	// LogBytes limits the memory of the logs of all feeds together. Watches read older
	// events from the cacher's window. Default 64 MiB.
	LogBytes int

	// LogAge is how long the logs keep events. Watches read older events from the cacher's
	// window. Default 1 min.
	LogAge time.Duration

	// CatchUpBytes limits the memory of the catch-up parts that watches share. A part that
	// does not fit is made again for each watch. Default 64 MiB.
	CatchUpBytes int

	// CatchUpStates limits how many past states are retained for catch-ups of several
	// messages. Each may be as large as the present state with its window. Default 4.
	CatchUpStates int

	// Turns limit how many parts of catch-ups are made at once. Default: turns of this
	// resource alone.
	Turns work.Turns

	// Indexed lists fields, as indices of [object.Object.Fields]. The index lists feeds
	// by the values that they require of these fields. It always indexes by labels.
	Indexed []int

	// Observer gets reports about dispatched changes. Optional.
	Observer Observer
}
