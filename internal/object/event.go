package object

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
