package dispatch

import (
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// LostError means that a revision is not available. Either a watcher with EveryEvent cannot
// have all events after its position, or there is no snapshot at the exact revision that a
// watcher asked for.
type LostError struct {
	Asked   object.Revision // the position, or the exact revision
	Oldest  object.Revision // all events after this revision are available
	Current object.Revision
}

func (e *LostError) Error() string {
	return fmt.Sprintf("revision %d is not available: the oldest is %d, the newest %d", e.Asked, e.Oldest, e.Current)
}

// EpochError means that the position of a watcher with EveryEvent belongs to another epoch.
type EpochError struct {
	Asked   object.Epoch
	Current object.Position
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("the epoch is now %s, not %s: positions of the old epoch are no longer valid", e.Current.Epoch, e.Asked)
}

// catchUp is a catch-up that is under way. Between two messages, its only reference to a
// cacher.State is in a retainedState, and the dispatcher may drop that state. Otherwise a
// client that does not read would keep the state in memory.
type catchUp struct {
	kind  object.CatchUp
	since object.Revision // DELTA: the cursor of the watcher when the catch-up began; otherwise 0
	to    object.Revision // the revision to which the catch-up leads; RESET: the revision of the snapshot
	asOf  time.Time       // after the catch-up, the client has everything that the store had at this time

	// A REPLAY does not use the fields below.

	small        bool           // the catch-up is a DELTA of one part, not larger than smallDelta
	first        *part          // the first part, made before the catch-up was announced; nil: already sent, or there is none
	state        *retainedState // the state for the remaining parts; nil: no further part has to be made
	next         partStart      // where the next part begins
	allPartsSent bool           // the next message is SYNCED
}

// smallDelta is the largest size of a DELTA that needs no reservation. After a relist, all
// watchers get a DELTA at once, and most of these DELTAs are empty or small. A small DELTA
// costs no more than a live message.
const smallDelta = 16 << 10

// startCatchUp chooses how to bring the watcher up to date, and returns the message that
// announces the catch-up.
func (w *Watcher) startCatchUp() (Message, error) {
	d := w.dispatcher
	asOf := d.cfg.Source.Confirmed() // read before the state, so the state has at least everything from that time
	newest := d.cfg.Source.State()
	kind, err := w.moveToCatchUp(newest)
	if err != nil {
		return Message{}, err
	}
	c := &catchUp{kind: kind, to: newest.Revision(), asOf: asOf}
	if kind == object.Delta {
		c.since = w.cursor
	}
	if kind.TransfersState() {
		state := w.target(newest)
		c.to = state.Revision()
		if kind == object.Reset && w.exact > 0 {
			c.to = w.exact
		}
		// Most catch-ups have one part and need no retained state.
		first := w.part(c, state)
		c.small = kind == object.Delta && first.isLast && first.end.bytes <= smallDelta
		switch {
		case !first.isLast:
			c.first, c.state = &first, d.retained.take(state)
		case len(first.pieces) > 0:
			c.first = &first
		default:
			c.allPartsSent = true // there are no parts
		}
	}
	w.abandonCatchUp()
	w.catchUp, w.step = c, stepCatchUp
	return w.catchUpBegin(kind), nil
}

// moveToCatchUp chooses a catch-up that leads to the state, and moves the cursor to its beginning.
func (w *Watcher) moveToCatchUp(newest *cacher.State) (object.CatchUp, error) {
	if w.step == stepBehind {
		w.cursor = w.feed.view.Load().skipDropped(w.at()).Revision
	}
	kind, err := w.chooseCatchUp(newest)
	if err != nil {
		return 0, err
	}
	if kind == object.Reset {
		if epoch := newest.Position().Epoch; w.epoch != epoch {
			if w.epoch != "" {
				// w.needed is a revision of the old epoch and no longer applies. An exact
				// snapshot still needs a state at its revision or later.
				w.needed = w.exact
				if w.step == stepResume { // the watch begins with a position of another epoch
					w.needed = max(w.needed, w.changedAt())
				}
			}
			w.epoch = epoch
		}
		w.cursor = 0
	}
	w.sent, w.mergeTo = 0, 0
	return kind, nil
}

// catchUpBegin returns the message that announces a catch-up.
func (w *Watcher) catchUpBegin(kind object.CatchUp) Message {
	m := w.message(object.CatchUpBegin, payload{})
	m.Header.CatchUp = kind
	return m
}

// target returns the state to which a RESET or a DELTA leads. This is the state that the
// watchers of the same interest share, or the newest one. target also sets w.needed to the
// revision of the state. If the catch-up starts over, it then leads to no older state.
//
// If the watcher starts over because its state was dropped, target prefers the oldest
// retained state that is new enough. Otherwise the dispatcher might have to retain a newer
// state, and to drop a state of other watchers for it.
func (w *Watcher) target(newest *cacher.State) *cacher.State {
	d := w.dispatcher
	needed := max(w.needed, w.cursor)
	if w.catchUp != nil && w.catchUp.kind.TransfersState() {
		s := d.retained.oldest(newest.Position().Epoch, needed)
		// After the catch-up, the watcher must be able to continue from this state, either
		// with the changes of the window or with a DELTA.
		if s != nil && (s.Revision() >= newest.Replayable() || !w.everyEvent && newest.HasDelta(s.Revision())) {
			w.needed = s.Revision()
			return s
		}
	}
	s := w.feed.catchUps.sharedState(newest, max(needed, newest.Replayable()), &d.catchUps)
	d.remember(w.feed)
	w.needed = s.Revision()
	return s
}

// changedAt returns a revision of the present state after which nothing concerns the interest. A watch
// that begins may share a state from this revision on, and no older one: its client may have received
// everything up to the revision from another watch of this server. A watcher that falls behind later
// may share an older state, because its client has seen nothing after the cursor.
func (w *Watcher) changedAt() object.Revision {
	// The order matters: the view has every event up to the position that was loaded before.
	dispatched := w.dispatcher.dispatchedUpTo.Load()
	v := w.feed.view.Load()
	present := w.dispatcher.cfg.Source.State().Position()
	if dispatched == nil || *dispatched != present || v.base.Epoch != present.Epoch {
		// Another watch may have read changes from the window that are not yet dispatched.
		return present.Revision
	}
	return min(v.lastRevision(), present.Revision)
}

// abandonCatchUp ends the catch-up that is under way, if there is one.
func (w *Watcher) abandonCatchUp() {
	if w.catchUp != nil {
		w.dispatcher.retained.release(w.catchUp.state)
		w.catchUp = nil
	}
}

// chooseCatchUp returns the cheapest kind of catch-up that leads to the given state. If the
// watcher cannot have the events or the snapshot that it asked for, chooseCatchUp returns a
// [*LostError] or an [*EpochError].
func (w *Watcher) chooseCatchUp(s *cacher.State) (object.CatchUp, error) {
	epoch := s.Position().Epoch
	switch {
	case w.exact > 0 && (w.exact < s.Replayable() || w.exact > s.Revision()): // the revision is too old, or it belongs to another epoch
		return 0, &LostError{Asked: w.exact, Oldest: s.Replayable(), Current: s.Revision()}
	case w.cursor == 0:
		return object.Reset, nil
	case w.epoch != epoch && w.everyEvent:
		return 0, &EpochError{Asked: w.epoch, Current: s.Position()}
	case w.epoch != epoch:
		return object.Reset, nil
	case w.step == stepResume && w.cursor >= s.Replayable():
		return object.Replay, nil
	case w.everyEvent:
		return 0, &LostError{Asked: w.cursor, Oldest: s.Replayable(), Current: s.Revision()}
	case s.HasDelta(w.cursor):
		return object.Delta, nil
	}
	return object.Reset, nil
}

// catchUpPart returns the next part of the catch-up that is under way. It returns readUpToDate
// if SYNCED comes next, and readLost if the catch-up cannot continue and has to start over.
func (w *Watcher) catchUpPart() (payload, readResult) {
	c := w.catchUp
	if !c.kind.TransfersState() {
		return w.events()
	}
	if !c.allPartsSent {
		p := c.first
		if c.first = nil; p == nil {
			state := w.catchUpState()
			if state == nil {
				return payload{}, readLost
			}
			p = new(w.part(c, state))
		}
		if c.next, c.allPartsSent = p.next, p.isLast; c.allPartsSent {
			w.dispatcher.retained.release(c.state)
			c.state = nil
		}
		if len(p.pieces) > 0 {
			return p.payload(), readEvents
		}
	}
	w.cursor = c.to
	if c.kind == object.Reset && w.exact == 0 {
		// The state may be older than the newest one, if nothing has changed for the interest.
		w.cursor = w.completeAfter(w.at()).Revision
	}
	return payload{}, readUpToDate
}

func (w *Watcher) synced() Message {
	age := StatedAge(w.catchUp.asOf, time.Now())
	w.catchUp, w.exact = nil, 0
	w.step = stepLive
	m := w.message(object.Synced, payload{})
	m.Header.Age = age
	return m
}

// catchUpState returns a state from which the next part can be made, or nil if there is none.
// If the retained state was dropped, a RESET continues from the newest state, as long as the
// window reaches back to the revision of the snapshot.
func (w *Watcher) catchUpState() *cacher.State {
	c := w.catchUp
	if s := w.dispatcher.retained.use(c.state); s != nil {
		return s
	}
	s := w.dispatcher.cfg.Source.State()
	if c.kind == object.Reset && s.Position().Epoch == w.epoch && c.to >= s.Replayable() {
		return s
	}
	return nil
}

// part returns the next part of a RESET or a DELTA. Watchers that need the same part share
// it.
func (w *Watcher) part(c *catchUp, s *cacher.State) part {
	var makePart func(*catchUp, *cacher.State) part
	switch c.kind {
	case object.Reset:
		makePart = w.resetPart
	case object.Delta:
		makePart = w.deltaPart
	default:
		panic(fmt.Sprintf("a catch-up of kind %v has no parts that are made from a state", c.kind))
	}
	key := partKey{kind: c.kind, since: c.since, to: c.to, start: c.next}
	return w.feed.catchUps.part(s, key, &w.dispatcher.catchUps, func() (p part) {
		w.dispatcher.cfg.Turns.Do(func() { p = makePart(c, s) })
		return p
	})
}

// resetPart makes a part of a snapshot.
func (w *Watcher) resetPart(c *catchUp, s *cacher.State) part {
	interest := &w.feed.interest
	p := part{next: c.next, isLast: true, end: batchCut{limit: w.dispatcher.cfg.MessageBytes}}
	objects, _ := s.ObjectsAt(c.to, interest.Scope, c.next.Key)
	var last object.Key
	for o := range objects {
		if !interest.Picks(o) {
			continue
		}
		event := w.dispatcher.cfg.Encoder.AddedEvent(o, interest.Projection)
		if !p.end.takeAlone(len(event)) {
			p.isLast = false
			break
		}
		p.pieces = append(p.pieces, event)
		last = o.Key
	}
	if len(p.pieces) > 0 {
		p.next.Key = last + "\x00"
	}
	return p
}

// deltaPart makes a part of the difference between two revisions.
func (w *Watcher) deltaPart(c *catchUp, s *cacher.State) part {
	interest := &w.feed.interest
	p := part{next: c.next, isLast: true, end: batchCut{limit: w.dispatcher.cfg.MessageBytes}}
	for d := range s.Since(c.since, interest.Scope, c.next.ChangeID) {
		e := interest.SeeDifference(d, c.since)
		var event []byte
		if e.Type == object.Added {
			event = w.dispatcher.cfg.Encoder.AddedEvent(e.Object, interest.Projection)
		} else {
			event = w.dispatcher.cfg.Encoder.AppendEvent(nil, e, interest.Projection)
		}
		if !p.end.takeAlone(len(event)) {
			p.isLast = false
			break
		}
		p.pieces = append(p.pieces, event)
		p.next.ChangeID = d.ChangeID
	}
	return p
}
