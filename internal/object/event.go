package object

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

// CatchUp is the way in which a watcher reaches the present. The numbers are those
// of fanout.v1.WatchResponse.CatchUp.
type CatchUp uint8

// The kinds of catch-up.
const (
	NoCatchUp CatchUp = 0
	Replay    CatchUp = 1 // every event after the watcher's position
	Reset     CatchUp = 2 // the matching objects at one revision
	Delta     CatchUp = 3 // the present form of each object that changed since the position

	CatchUpKinds = 4 // number of the values above
)

// Header is a watch message without its events.
type Header struct {
	Kind     MessageKind
	CatchUp  CatchUp  // with CatchUpBegin
	Position Position // the position of the watcher after the events
	Partial  bool     // more events follow that belong together with these
}
