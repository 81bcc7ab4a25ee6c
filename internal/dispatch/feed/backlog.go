package feed

import "github.com/fanoutd/fanoutd/internal/object"

// Backlog describes the events that wait for a watch.
type Backlog struct {
	Events int             // number of waiting events; negative: unknown
	Since  object.Revision // all waiting events have higher revisions; meaningless if Events is 0
}

// UnknownBacklog is the backlog of events after a position that the log does not have.
func UnknownBacklog(at object.Position) Backlog { return Backlog{Events: -1, Since: at.Revision} }

// Any goroutine may call the methods below.

// Backlog returns the events after a position. Their number is unknown if the log does not reach
// back to the position.
func (f *Feed) Backlog(at object.Position) Backlog {
	if v := f.View.Load(); v.Covers(at) {
		n, first := v.count(at.Revision)
		return Backlog{Events: n, Since: first - 1}
	}
	return UnknownBacklog(at)
}

// CompleteAfter returns the position up to which a client has every event, if it has every event
// up to the argument.
func (f *Feed) CompleteAfter(at object.Position) object.Position {
	// The order matters: the view has every event up to the position that was loaded before.
	p := f.Feeds.DispatchedUpTo.Load()
	v := f.View.Load()
	if p.Epoch != at.Epoch || !v.Covers(at) {
		return at
	}
	upTo := p.Revision
	if first, ok := v.Next(at.Revision); ok {
		upTo = min(upTo, first-1)
	}
	return object.Position{Epoch: at.Epoch, Revision: max(at.Revision, upTo)}
}

// Shows reports whether the log has an event of the revision. If so, a client that has received a
// position at or above the revision has also received the event, or a newer state.
func (f *Feed) Shows(revision object.Revision) bool {
	first, ok := f.View.Load().Next(revision - 1)
	return ok && first == revision
}

// ChangedAt returns a revision of the present state after which nothing concerns the interest. A watch
// that begins may share a state from this revision on, and no older one: its client may have received
// everything up to the revision from another watch of this server. A watch that falls behind later
// may share an older state, because its client has seen nothing after its position.
func (f *Feed) ChangedAt() object.Revision {
	// The order matters: the view has every event up to the position that was loaded before.
	dispatched := f.Feeds.DispatchedUpTo.Load()
	v := f.View.Load()
	present := f.Feeds.Config.Source.State().Position()
	if *dispatched != present || v.base.Epoch != present.Epoch {
		// Another watch may have read changes from the window that are not yet dispatched.
		return present.Revision
	}
	return min(v.lastRevision(), present.Revision)
}
