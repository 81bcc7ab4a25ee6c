package object

import (
	"strconv"
	"time"
)

// Event is a change as one interest sees it.
type Event struct {
	Type     EventType
	Revision Revision // of the change
	Key      Key

	// Object is the object after the change, or the deleted object. It is nil for a
	// deletion if the deleted object is unknown.
	Object *Object

	// Previous is the object before the change. It is nil if the interest did not
	// match the object before, or if that object is unknown.
	Previous *Object
}

// EventType is the type of an event. The numbers are those of
// fanout.v1.Event.Type.
type EventType uint8

// The types of events.
const (
	Added    EventType = 1 // the object now matches the interest
	Modified EventType = 2 // the object changed and still matches
	Deleted  EventType = 3 // the object was deleted or no longer matches
)

// Projection selects the parts of objects that an interest receives. It is
// comparable.
type Projection struct {
	Previous   bool // modifications and deletions include the object before the change
	OmitValues bool // leave out values

	// JSON is the type of the messages that are shown in their JSON form. Nil: values are
	// shown as they are.
	JSON *MessageType
}

// MessageKind is the meaning of a watch message. The numbers are those of
// fanout.v1.WatchResponse.Kind.
type MessageKind uint8

// The kinds of messages.
const (
	CatchUpBegin MessageKind = 1
	CatchUpPart  MessageKind = 2
	Synced       MessageKind = 3
	Live         MessageKind = 4
	Bookmark     MessageKind = 5
	Draining     MessageKind = 6
)

// CatchUpKind is the way in which a watch reaches the present. The numbers are those
// of fanout.v1.WatchResponse.CatchUp.
type CatchUpKind uint8

// The kinds of catch-up.
const (
	NoCatchUp CatchUpKind = iota
	Replay                // every event after the position of the watch
	Reset                 // the matching objects at one revision
	Delta                 // the present form of each object that changed since the position

	CatchUpKinds // number of the values above
)

// TransfersState reports whether a catch-up of this kind sends objects of a state instead of
// events. Such a catch-up may be large. It is made in parts from one state, and needs a
// snapshot slot while its parts are sent.
func (c CatchUpKind) TransfersState() bool {
	switch c {
	case Reset, Delta:
		return true
	case NoCatchUp, Replay:
	}
	return false
}

// String returns the name of the kind in metrics.
func (c CatchUpKind) String() string {
	switch c {
	case NoCatchUp:
		return "none"
	case Replay:
		return "replay"
	case Reset:
		return "reset"
	case Delta:
		return "delta"
	}
	return "catch-up " + strconv.Itoa(int(c))
}

// Header is a watch message without its events.
type Header struct {
	Kind     MessageKind
	CatchUp  CatchUpKind // with CatchUpBegin
	Position Position    // the position of the watch after the events
	Partial  bool        // more events follow that belong together with these

	ResumeAtOnce bool // with Draining: the client need not wait before it resumes

	// Age is how long ago the server last knew that it had everything that the store had:
	// with Live and Bookmark, and since the beginning of the catch-up with Synced. 0: less
	// than a second.
	Age time.Duration
}

// BeginsReset reports whether the client loses its state with the message, and what it has applied.
func (h *Header) BeginsReset() bool { return h.Kind == CatchUpBegin && h.CatchUp == Reset }
