package dispatch

import (
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// Interest says what a watcher wants to see. Watchers whose interests have the
// same canonical form share a feed.
type Interest struct {
	Scope    object.Scope
	Selector selector.Selector
}

// interestKey is the canonical form of an interest.
type interestKey struct {
	scope    object.Scope
	selector string
}

func (i *Interest) key() interestKey { return interestKey{i.Scope, i.Selector.String()} }

// picks reports whether an object of the scope, or none, is in view.
func (i *Interest) picks(o *object.Object) bool { return o != nil && i.Selector.Matches(o) }

// see returns how a change looks to the interest: the type of the event and the
// object that it carries, or false where it is not to be seen. What decides is
// what the watcher saw before: an object that leaves the selector is deleted.
func (i *Interest) see(c *object.Change) (object.EventType, *object.Object, bool) {
	if !i.Scope.Contains(c.Key) {
		return 0, nil, false
	}
	before, after := i.picks(c.Old), i.picks(c.New)
	switch {
	case before && after:
		return object.Modified, c.New, true
	case after:
		return object.Added, c.New, true
	case before:
		return object.Deleted, c.Old, true
	}
	return 0, nil, false
}
