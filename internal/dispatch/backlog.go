package dispatch

import "github.com/fanoutd/fanoutd/internal/object"

// Backlog describes the events that wait for a watch.
type Backlog struct {
	Events int             // number of waiting events; negative: unknown
	Since  object.Revision // all waiting events have higher revisions; meaningless if Events is 0
}

// unknownBacklog is the backlog of events after a position that the log does not have.
func unknownBacklog(at object.Position) Backlog { return Backlog{Events: -1, Since: at.Revision} }

// Any goroutine may call the methods below.

// backlog returns the events after a position. Their number is unknown if the log does not reach
// back to the position.
func (f *feed) backlog(at object.Position) Backlog {
	if v := f.view.Load(); v.covers(at) {
		n, first := v.count(at.Revision)
		return Backlog{Events: n, Since: first - 1}
	}
	return unknownBacklog(at)
}

// completeAfter returns the position up to which a client has every event, if it has every event
// up to the argument.
func (f *feed) completeAfter(at object.Position) object.Position {
	// The order matters: the view has every event up to the position that was loaded before.
	p := f.dispatcher.dispatchedUpTo.Load()
	v := f.view.Load()
	if p == nil || p.Epoch != at.Epoch || !v.covers(at) {
		return at
	}
	upTo := p.Revision
	if first, ok := v.next(at.Revision); ok {
		upTo = min(upTo, first-1)
	}
	return object.Position{Epoch: at.Epoch, Revision: max(at.Revision, upTo)}
}

// quiet reports whether nothing concerns the interest after the position from, up to and including
// the revision to. It returns false if that is unknown, because the dispatcher has not reached the
// revision, or because the log does not reach back to the position.
func (f *feed) quiet(from object.Position, to object.Revision) bool {
	// The order matters: the view has every event up to the position that was loaded before.
	if p := f.dispatcher.dispatchedUpTo.Load(); p == nil || p.Epoch != from.Epoch || p.Revision < to {
		return false
	}
	v := f.view.Load()
	if !v.covers(from) {
		return false
	}
	first, ok := v.next(from.Revision)
	return !ok || first > to
}

// shows reports whether the log has an event of the revision. If so, a client that has received a
// position at or above the revision has also received the event, or a newer state.
func (f *feed) shows(revision object.Revision) bool {
	v := f.view.Load()
	n, first := v.count(revision - 1)
	return n > 0 && first == revision
}

// changedAt returns a revision of the present state after which nothing concerns the interest. A watch
// that begins may share a state from this revision on, and no older one: its client may have received
// everything up to the revision from another watch of this server. A watch that falls behind later
// may share an older state, because its client has seen nothing after its position.
func (f *feed) changedAt() object.Revision {
	// The order matters: the view has every event up to the position that was loaded before.
	dispatched := f.dispatcher.dispatchedUpTo.Load()
	v := f.view.Load()
	present := f.dispatcher.cfg.Source.State().Position()
	if dispatched == nil || *dispatched != present || v.base.Epoch != present.Epoch {
		// Another watch may have read changes from the window that are not yet dispatched.
		return present.Revision
	}
	return min(v.lastRevision(), present.Revision)
}
