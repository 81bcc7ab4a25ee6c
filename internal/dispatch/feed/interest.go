package feed

import (
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// Interest defines which objects a watch sees, and how. Watches whose interests have the
// same canonical form share a feed.
type Interest struct {
	Scope      object.Scope
	Selector   selector.Selector
	Projection object.Projection
}

// interestKey is the canonical form of an interest.
type interestKey struct {
	scope      object.Scope
	selector   string
	projection object.Projection
}

func (i *Interest) key() interestKey { return interestKey{i.Scope, i.Selector.String(), i.Projection} }

// Picks reports whether the selector matches the object, which may be nil. It does not check
// the scope.
func (i *Interest) Picks(o *object.Object) bool { return o != nil && i.Selector.Matches(o) }

// See returns the event that a change causes for the interest, or false if it causes none. An
// object that the selector no longer matches is reported as DELETED.
func (i *Interest) See(c *object.Change) (object.Event, bool) {
	if !i.Scope.Contains(c.Key) {
		return object.Event{}, false
	}
	e := object.Event{Revision: c.Revision, Key: c.Key}
	before, after := i.Picks(c.Old), i.Picks(c.New)
	switch {
	case before && after:
		e.Type, e.Object, e.Previous = object.Modified, c.New, c.Old
	case after:
		e.Type, e.Object = object.Added, c.New
	case before:
		e.Type, e.Object, e.Previous = object.Deleted, c.Old, c.Old
	default:
		return object.Event{}, false
	}
	return e, true
}

// SeeDifference returns the event for a key that has changed since the position of a client.
// The server does not know whether the client has the object. At the position, the object may
// not have matched the selector. The client may also have received changes that are later
// than the position. So if the object does not match now, the event is always DELETED. If the
// object matches, ADDED may reach a client that has the object, and MODIFIED may reach a
// client that does not have it.
func (i *Interest) SeeDifference(d cacher.Difference, since object.Revision) object.Event {
	e := object.Event{Revision: d.At, Key: d.Key}
	switch picked := i.Picks(d.Object); {
	case picked && d.Object.CreateRevision() > since:
		e.Type, e.Object = object.Added, d.Object
	case picked:
		e.Type, e.Object = object.Modified, d.Object
	default:
		e.Type = object.Deleted
	}
	return e
}
