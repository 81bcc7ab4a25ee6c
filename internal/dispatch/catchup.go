package dispatch

import (
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// LostError says that a watcher with EveryEvent cannot have all events after its position,
// or that the snapshot at the exact revision that a watcher asked for is not available.
type LostError struct {
	Asked   object.Revision // the position, or the exact revision
	Oldest  object.Revision // every event after this revision is known
	Current object.Revision
}

func (e *LostError) Error() string {
	return fmt.Sprintf("revision %d is not available: the oldest is %d, the newest %d", e.Asked, e.Oldest, e.Current)
}

// EpochError says that the position of a watcher with EveryEvent belongs to another epoch.
type EpochError struct {
	Asked   object.Epoch
	Current object.Position
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("the epoch is now %s, not %s: positions of the old epoch are no longer valid", e.Current.Epoch, e.Asked)
}

// catchUp is a catch-up that is under way. Between two messages it refers to a cacher.State
// only through retainedState, which the dispatcher may release. Otherwise a client that does
// not read would keep the state in memory.
type catchUp struct {
	kind  object.CatchUp
	since object.Revision // DELTA: the cursor of the watcher when the catch-up began; otherwise 0
	to    object.Revision // the revision to which the catch-up leads; RESET: that of the snapshot
	asOf  time.Time       // the state at revision to has everything that the store had then

	// REPLAY does not use the fields below.

	small        bool           // a DELTA of one part that is no larger than smallDelta
	first        *part          // the first part, made before the catch-up was announced; nil: already sent
	state        *retainedState // nil: no further part has to be made
	next         partStart      // where the next part begins
	allPartsSent bool           // only SYNCED follows
}

// smallDelta is the size up to which a DELTA needs no reservation. After a relist, all
// watchers get a DELTA at once, and most are empty or small. Such a DELTA costs no more than
// a live message.
const smallDelta = 16 << 10

// startCatchUp decides how the watcher gets to the present, and returns the message that
// announces the catch-up.
func (w *Watcher) startCatchUp() (Message, error) {
	d := w.dispatcher
	asOf := d.cfg.Source.Confirmed() // before the state is loaded, which may be newer
	newest := d.cfg.Source.State()
	if w.step == stepBehind {
		w.cursor = w.feed.view.Load().skipDropped(w.at()).Revision
	}
	kind, err := w.chooseCatchUp(newest)
	if err != nil {
		return Message{}, err
	}
	c := &catchUp{kind: kind, to: newest.Revision(), asOf: asOf}
	switch kind {
	case object.Delta:
		c.since = w.cursor
	case object.Reset:
		if epoch := newest.Position().Epoch; w.epoch != epoch {
			if w.epoch != "" {
				// w.needed is a revision of the old epoch and does not count any more. Only an exact snapshot
				// still needs a state at its revision or later.
				w.needed = w.exact
			}
			w.epoch = epoch
		}
		w.cursor = 0
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
			c.allPartsSent = true // there is none
		}
	}
	w.abandonCatchUp()
	w.sent, w.mergeTo = 0, 0
	w.catchUp, w.step = c, stepCatchUp
	m := w.message(object.CatchUpBegin, payload{})
	m.Header.CatchUp = kind
	return m, nil
}

// target returns the state to which a RESET or a DELTA leads: the state that the watchers of
// the same interest share, or the newest one. It sets w.needed, so that a catch-up that
// starts over does not lead to an older state.
//
// If the watcher starts over because its state was dropped, target prefers the oldest
// retained state that is new enough. Retaining a new state could release one that is in use.
func (w *Watcher) target(newest *cacher.State) *cacher.State {
	d := w.dispatcher
	needed := max(w.needed, w.cursor)
	if w.catchUp != nil && w.catchUp.kind.TransfersState() {
		s := d.retained.oldest(newest.Position().Epoch, needed)
		// After the catch-up, the watcher must be able to go on from this state: with the
		// changes of the window, or with a DELTA.
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

// abandonCatchUp ends the catch-up that is under way, if there is one.
func (w *Watcher) abandonCatchUp() {
	if w.catchUp != nil {
		w.dispatcher.retained.release(w.catchUp.state)
		w.catchUp = nil
	}
}

// chooseCatchUp returns the cheapest kind of catch-up that leads to the state, or a
// [*LostError] or [*EpochError].
func (w *Watcher) chooseCatchUp(s *cacher.State) (object.CatchUp, error) {
	epoch := s.Position().Epoch
	switch {
	case w.exact > 0 && (w.exact < s.Replayable() || w.exact > s.Revision()): // forgotten, or of another epoch
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

// catchUpMessage returns the next part of a RESET or a DELTA, or SYNCED after the last part.
// It returns false if the catch-up cannot continue and has to start over.
func (w *Watcher) catchUpMessage() (Message, bool) {
	c := w.catchUp
	if !c.allPartsSent {
		p := c.first
		if c.first = nil; p == nil {
			state := w.catchUpState()
			if state == nil {
				return Message{}, false
			}
			p = new(w.part(c, state))
		}
		if c.next, c.allPartsSent = p.next, p.isLast; c.allPartsSent {
			w.dispatcher.retained.release(c.state)
			c.state = nil
		}
		if len(p.pieces) > 0 {
			return w.message(object.CatchUpPart, p.payload()), true
		}
	}
	w.cursor = c.to
	return w.synced(), true
}

func (w *Watcher) synced() Message {
	age := StatedAge(w.catchUp.asOf, time.Now())
	w.catchUp, w.exact = nil, 0
	w.step = stepLive
	m := w.message(object.Synced, payload{})
	m.Header.Age = age
	return m
}

// catchUpState returns a state from which the next part can be made, or nil. If the retained
// state was dropped, a RESET continues from the newest state, as long as the window reaches
// back to the revision of the snapshot.
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

// part returns the next part of a catch-up that transfers state. Watchers that need the same
// part share it.
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
