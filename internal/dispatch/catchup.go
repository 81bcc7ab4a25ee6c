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
func (r *reader) startCatchUp() (Message, error) {
	d := r.feed.dispatcher
	asOf := d.cfg.Source.Confirmed() // read before the state, so the state has at least everything from that time
	newest := d.cfg.Source.State()
	kind, err := r.moveToCatchUp(newest)
	if err != nil {
		return Message{}, err
	}
	c := &catchUp{kind: kind, to: newest.Revision(), asOf: asOf}
	if kind == object.Delta {
		c.since = r.after
	}
	if kind.TransfersState() {
		state := r.target(newest)
		c.to = state.Revision()
		if kind == object.Reset && r.exact > 0 {
			c.to = r.exact
		}
		// Most catch-ups have one part and need no retained state.
		first := r.part(c, state)
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
	r.abandonCatchUp()
	r.catchUp, r.step = c, stepCatchUp
	return r.catchUpBegin(kind), nil
}

// moveToCatchUp chooses a catch-up that leads to the state, and moves the cursor to its beginning.
func (r *reader) moveToCatchUp(newest *cacher.State) (object.CatchUp, error) {
	if r.step == stepBehind {
		r.after = r.feed.view.Load().skipDropped(r.at()).Revision
	}
	kind, err := r.chooseCatchUp(newest)
	if err != nil {
		return 0, err
	}
	if kind == object.Reset {
		if epoch := newest.Position().Epoch; r.epoch != epoch {
			if r.epoch != "" {
				// r.needed is a revision of the old epoch and no longer applies. An exact
				// snapshot still needs a state at its revision or later.
				r.needed = r.exact
				if r.step == stepResume { // the watch begins with a position of another epoch
					r.needed = max(r.needed, r.feed.changedAt())
				}
			}
			r.epoch = epoch
		}
		r.after = 0
	}
	r.skip, r.mergeTo = 0, 0
	return kind, nil
}

// catchUpBegin returns the message that announces a catch-up.
func (r *reader) catchUpBegin(kind object.CatchUp) Message {
	m := r.message(object.CatchUpBegin, payload{})
	m.Header.CatchUp = kind
	return m
}

// target returns the state to which a RESET or a DELTA leads. This is the state that the
// watchers of the same interest share, or the newest one. target also sets r.needed to the
// revision of the state. If the catch-up starts over, it then leads to no older state.
//
// If the watcher starts over because its state was dropped, target prefers the oldest
// retained state that is new enough. Otherwise the dispatcher might have to retain a newer
// state, and to drop a state of other watchers for it.
func (r *reader) target(newest *cacher.State) *cacher.State {
	d := r.feed.dispatcher
	needed := max(r.needed, r.after)
	if r.catchUp != nil && r.catchUp.kind.TransfersState() {
		s := d.retained.oldest(newest.Position().Epoch, needed)
		// After the catch-up, the watcher must be able to continue from this state, either
		// with the changes of the window or with a DELTA.
		if s != nil && (s.Revision() >= newest.Replayable() || !r.everyEvent && newest.HasDelta(s.Revision())) {
			r.needed = s.Revision()
			return s
		}
	}
	s := r.feed.catchUps.sharedState(newest, max(needed, newest.Replayable()), &d.catchUps)
	d.remember(r.feed)
	r.needed = s.Revision()
	return s
}

// abandonCatchUp ends the catch-up that is under way, if there is one.
func (r *reader) abandonCatchUp() {
	if r.catchUp != nil {
		r.feed.dispatcher.retained.release(r.catchUp.state)
		r.catchUp = nil
	}
}

// chooseCatchUp returns the cheapest kind of catch-up that leads to the given state. If the
// watcher cannot have the events or the snapshot that it asked for, chooseCatchUp returns a
// [*LostError] or an [*EpochError].
func (r *reader) chooseCatchUp(s *cacher.State) (object.CatchUp, error) {
	epoch := s.Position().Epoch
	switch {
	case r.exact > 0 && (r.exact < s.Replayable() || r.exact > s.Revision()): // the revision is too old, or it belongs to another epoch
		return 0, &LostError{Asked: r.exact, Oldest: s.Replayable(), Current: s.Revision()}
	case r.after == 0:
		return object.Reset, nil
	case r.epoch != epoch && r.everyEvent:
		return 0, &EpochError{Asked: r.epoch, Current: s.Position()}
	case r.epoch != epoch:
		return object.Reset, nil
	case r.step == stepResume && r.after >= s.Replayable():
		return object.Replay, nil
	case r.everyEvent:
		return 0, &LostError{Asked: r.after, Oldest: s.Replayable(), Current: s.Revision()}
	case s.HasDelta(r.after):
		return object.Delta, nil
	}
	return object.Reset, nil
}

// catchUpPart returns the next part of the catch-up that is under way. It returns readUpToDate
// if SYNCED comes next, and readLost if the catch-up cannot continue and has to start over.
func (r *reader) catchUpPart() (payload, readResult) {
	c := r.catchUp
	if !c.kind.TransfersState() {
		return r.events()
	}
	if !c.allPartsSent {
		p := c.first
		if c.first = nil; p == nil {
			state := r.catchUpState()
			if state == nil {
				return payload{}, readLost
			}
			p = new(r.part(c, state))
		}
		if c.next, c.allPartsSent = p.next, p.isLast; c.allPartsSent {
			r.feed.dispatcher.retained.release(c.state)
			c.state = nil
		}
		if len(p.pieces) > 0 {
			return p.payload(), readEvents
		}
	}
	r.after = c.to
	if c.kind == object.Reset && r.exact == 0 {
		// The state may be older than the newest one, if nothing has changed for the interest.
		r.after = r.feed.completeAfter(r.at()).Revision
	}
	return payload{}, readUpToDate
}

func (r *reader) synced() Message {
	age := StatedAge(r.catchUp.asOf, time.Now())
	r.catchUp, r.exact = nil, 0
	r.step = stepLive
	m := r.message(object.Synced, payload{})
	m.Header.Age = age
	return m
}

// transfersState reports whether a catch-up that sends a state is under way.
func (r *reader) transfersState() bool { return r.catchUp != nil && r.catchUp.kind.TransfersState() }

// holdsPart reports whether the first part of a catch-up was made and not sent.
func (r *reader) holdsPart() bool { return r.catchUp != nil && r.catchUp.first != nil }

// syncedIsNext reports whether nothing of the catch-up is left but SYNCED.
func (r *reader) syncedIsNext() bool {
	switch c := r.catchUp; {
	case c == nil:
		return false
	case c.kind.TransfersState():
		return c.allPartsSent
	default:
		return r.skip == 0 && r.mergeTo == 0 && r.after >= c.to
	}
}

// needsReservation reports whether the next message is a part of a RESET or a DELTA, unless the DELTA
// is small. SYNCED needs no reservation.
func (r *reader) needsReservation() bool {
	switch r.step {
	case stepSnapshot:
		return true
	case stepCatchUp:
		c := r.catchUp
		return c.kind.TransfersState() && !c.allPartsSent && !c.small
	}
	return false
}

// catchUpState returns a state from which the next part can be made, or nil if there is none.
// If the retained state was dropped, a RESET continues from the newest state, as long as the
// window reaches back to the revision of the snapshot.
func (r *reader) catchUpState() *cacher.State {
	c := r.catchUp
	if s := r.feed.dispatcher.retained.use(c.state); s != nil {
		return s
	}
	s := r.feed.dispatcher.cfg.Source.State()
	if c.kind == object.Reset && s.Position().Epoch == r.epoch && c.to >= s.Replayable() {
		return s
	}
	return nil
}

// part returns the next part of a RESET or a DELTA. Watchers that need the same part share
// it.
func (r *reader) part(c *catchUp, s *cacher.State) part {
	var makePart func(*catchUp, *cacher.State) part
	switch c.kind {
	case object.Reset:
		makePart = r.resetPart
	case object.Delta:
		makePart = r.deltaPart
	default:
		panic(fmt.Sprintf("a catch-up of kind %v has no parts that are made from a state", c.kind))
	}
	key := partKey{kind: c.kind, since: c.since, to: c.to, start: c.next}
	return r.feed.catchUps.part(s, key, &r.feed.dispatcher.catchUps, func() (p part) {
		r.feed.dispatcher.cfg.Turns.Do(func() { p = makePart(c, s) })
		return p
	})
}

// resetPart makes a part of a snapshot.
func (r *reader) resetPart(c *catchUp, s *cacher.State) part {
	interest := &r.feed.interest
	p := part{next: c.next, isLast: true, end: batchCut{limit: r.feed.dispatcher.cfg.MessageBytes}}
	objects, _ := s.ObjectsAt(c.to, interest.Scope, c.next.Key)
	var last object.Key
	for o := range objects {
		if !interest.Picks(o) {
			continue
		}
		event := r.feed.dispatcher.cfg.Encoder.AddedEvent(o, interest.Projection)
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
func (r *reader) deltaPart(c *catchUp, s *cacher.State) part {
	interest := &r.feed.interest
	p := part{next: c.next, isLast: true, end: batchCut{limit: r.feed.dispatcher.cfg.MessageBytes}}
	for d := range s.Since(c.since, interest.Scope, c.next.ChangeID) {
		e := interest.SeeDifference(d, c.since)
		var event []byte
		if e.Type == object.Added {
			event = r.feed.dispatcher.cfg.Encoder.AddedEvent(e.Object, interest.Projection)
		} else {
			event = r.feed.dispatcher.cfg.Encoder.AppendEvent(nil, e, interest.Projection)
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
