package client

import "iter"

// Copy keeps the objects of a watch for a caller of [Resource.Watch]. After an interruption it tells the changes that
// the caller has missed from what the server sends again. The zero value is ready to use, with a watch from its begin.
// It is not safe for concurrent use.
type Copy struct {
	state  objectState
	phase  Phase
	whole  bool // the watch has sent a whole state: it did not begin with FromNow or After
	synced bool
}

// Apply applies an update. It returns its events without those that change nothing, and with the right types. At the end
// of a new state it returns the differences from the state before: first the deletions, then the rest, each in order of
// their keys. If the watch began with [FromNow] or [After], Apply cannot know the objects from before. It returns events
// as they come, and for a new state those that are later than the position before.
func (c *Copy) Apply(u *Update) []Event {
	c.phase = u.Phase
	c.synced = c.synced || u.Phase == PhaseSynced
	before, whole := c.state.at, c.whole
	var events []Event
	replaced := c.state.advance(u, func(e *Event, changed change[*Object], differs bool) {
		switch {
		case e == nil:
			e := replacementEvent(changed, u.Position.Revision)
			if !whole && e.Type == Added && before.Revision > 0 && before.Epoch == u.Position.Epoch {
				if e.Revision <= before.Revision {
					return // the watch began after it
				} else if e.Object.CreateRevision <= before.Revision {
					e.Type = Modified
				}
			}
			events = append(events, e)
		case !whole:
			events = append(events, *e)
		case differs:
			seen := *e
			seen.Type = changed.eventType()
			if seen.Type == Deleted && seen.Object.Value == nil {
				seen.Object = changed.old
			}
			events = append(events, seen)
		}
	})
	c.whole = c.whole || replaced
	return events
}

// replacementEvent returns the event of a change between two states. The second one has the revision.
func replacementEvent(c change[*Object], revision int64) Event {
	e := Event{Type: c.eventType(), Revision: revision, Object: c.old, Previous: c.old}
	if c.new != nil {
		e.Revision, e.Object = c.new.ModRevision, c.new
	}
	return e
}

// eventType returns the type of the event of a change.
func (c change[E]) eventType() EventType {
	var none E
	switch {
	case c.new == none:
		return Deleted
	case c.old == none:
		return Added
	}
	return Modified
}

// Synced reports whether the copy was complete at least once.
func (c *Copy) Synced() bool { return c.synced }

// Complete reports whether the objects are the state at one position. They are not while a new state arrives.
func (c *Copy) Complete() bool { return c.phase.Complete() }

// Len returns the number of objects.
func (c *Copy) Len() int { return c.state.objects.Len() }

// Objects yields the objects in order of their keys. While a new state arrives, they are the old ones.
func (c *Copy) Objects() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		c.state.objects.Scan(func(_ string, o *Object) bool { return yield(o) })
	}
}
