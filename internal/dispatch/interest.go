package dispatch

import "github.com/fanoutd/fanoutd/internal/object"

// Interest says what a watcher wants to see. Interests are canonical: watchers
// with equal interests share a feed.
type Interest struct {
	Scope object.Scope
}

// see returns how a change looks to the interest: the type of the event and the
// object that it carries, or false where it is not to be seen.
func (i Interest) see(c *object.Change) (object.EventType, *object.Object, bool) {
	if !i.Scope.Contains(c.Key) {
		return 0, nil, false
	}
	switch {
	case c.Old == nil:
		return object.Added, c.New, true
	case c.New == nil:
		return object.Deleted, c.Old, true
	}
	return object.Modified, c.New, true
}
