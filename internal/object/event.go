package object

// EventType says how a change looks to a watcher. The numbers are those of
// fanout.v1.Event.Type.
type EventType uint8

// The types of events.
const (
	Added    EventType = 1 // the object came into the watcher's view
	Modified EventType = 2 // the object changed within it
	Deleted  EventType = 3 // the object left it
)

// MessageKind says what a message of a watch means. The numbers are those of
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

// CatchUp says how a watcher is brought to the present. The numbers are those of
// fanout.v1.WatchResponse.CatchUp.
type CatchUp uint8

// The kinds of catch-up.
const (
	NoCatchUp CatchUp = 0
	Replay    CatchUp = 1 // every event after the watcher's position
	Reset     CatchUp = 2 // the matching objects at one revision
	Delta     CatchUp = 3 // what became of the objects that changed since the position
)

// Header is what a message of a watch says besides its events.
type Header struct {
	Kind     MessageKind
	CatchUp  CatchUp  // with CatchUpBegin
	Position Position // where the watcher is after the events
	Partial  bool     // more events follow that belong together with these
}

// Event is a change as one interest sees it.
type Event struct {
	Type     EventType
	Revision Revision // of the change
	Key      Key
	Object   *Object // the object after the change, or what is deleted; nil: deleted, and nothing is known of it
	Previous *Object // the object before the change; nil: was not in view, or is not known
}

// View says how much of objects an interest wants to see. It is comparable.
type View struct {
	Previous   bool // in modifications and deletions, the object before, too
	OmitValues bool // no values
}
