package dispatch

import (
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// Interest says what a watcher wants to see. Watchers whose interests have the
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

// Picks reports whether an object of the scope, or none, is in view.
func (i *Interest) Picks(o *object.Object) bool { return o != nil && i.Selector.Matches(o) }

// See returns how a change looks to the interest, or false where it is not to be
// seen. What decides is what the watcher saw before: an object that leaves the
// selector is deleted.
func (i *Interest) See(c *object.Change) (object.Event, bool) {
	if !i.Scope.Contains(c.Key) {
		return object.Event{}, false
	}
	e := object.Event{Revision: c.EventRevision(), Key: c.Key}
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

// SeeDifference returns what a watcher who was at the revision is told about what
// became of a key since. Whether it ever had the object is not known: it may have been
// told a part of what happened since, which its position does not say.
func (i *Interest) SeeDifference(d cacher.Difference, after object.Revision) object.Event {
	e := object.Event{Revision: d.At, Key: d.Key}
	switch picked := i.Picks(d.Object); {
	case picked && d.Object.CreateRevision > after:
		e.Type, e.Object = object.Added, d.Object
	case picked:
		e.Type, e.Object = object.Modified, d.Object
	default:
		e.Type = object.Deleted
	}
	return e
}
