package dispatch

import (
	"fmt"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// LostError says that a watcher with EveryEvent cannot have all events after its position,
// or that the snapshot at the exact revision that a watcher asked for is not available.
type LostError struct {
	Asked   object.Revision // the position, or the exact revision
	Oldest  object.Revision // every event after this one is known
	Current object.Revision
}

func (e *LostError) Error() string {
	return fmt.Sprintf("revision %d is not available: the oldest is %d, the newest %d", e.Asked, e.Oldest, e.Current)
}

// EpochError says that the position of a watcher with EveryEvent is of another epoch.
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
	from  object.Revision // DELTA: where the watcher was; RESET: the revision of the snapshot
	to    object.Revision // where the catch-up leads
	first *part           // made before the catch-up was announced; nil: sent
	state *retainedState  // of a RESET or a DELTA of several parts
	next  place           // where the next part begins
	last  bool            // the last part is sent
}

// startCatchUp decides how the watcher gets to the present, and announces it.
func (w *Watcher) startCatchUp() (Message, error) {
	d := w.dispatcher
	newest := d.cfg.Source.State()
	kind, err := w.chooseCatchUp(newest)
	if err != nil {
		return Message{}, err
	}
	c := &catchUp{kind: kind, from: w.cursor, to: newest.Revision()}
	if kind == object.Reset {
		if epoch := newest.Position().Epoch; w.epoch != epoch {
			if w.epoch != "" {
				// needed was a revision of the old epoch. An exact snapshot still needs a
				// state at its revision or later.
				w.needed = w.exact
			}
			w.epoch = epoch
		}
		w.cursor = 0
	}
	if kind != object.Replay {
		state := w.target(newest)
		c.to = state.Revision()
		if kind == object.Reset {
			if w.exact > 0 {
				c.to = w.exact
			}
			c.from = c.to
		}
		// Most catch-ups have one part and need no retained state.
		first := w.part(c, state)
		c.first = &first
		if !first.last {
			c.state = d.retained.take(state)
		}
	}
	w.abandonCatchUp()
	w.sent, w.mergeTo = 0, 0
	w.catchUp, w.step = c, catchingUp
	m := w.message(object.CatchUpBegin, payload{})
	m.Header.CatchUp = kind
	return m, nil
}

// target returns the state to which a RESET or a DELTA leads: that of other watchers that
// begin at the same time, or the newest. A watcher that starts over takes the oldest
// retained state that is new enough, because a new one could evict a state that is in use.
// target sets w.needed, so that a later start does not lead to an older state.
func (w *Watcher) target(newest *cacher.State) *cacher.State {
	d := w.dispatcher
	needed := max(w.needed, w.cursor)
	if w.catchUp != nil {
		s := d.retained.oldest(newest.Position().Epoch, needed)
		// The watcher must be able to continue from the state.
		if s != nil && (s.Revision() >= newest.Replayable() || !w.everyEvent && newest.HasDelta(s.Revision())) {
			return s
		}
	}
	s := w.feed.catchUps.join(newest, max(needed, newest.Replayable()), &d.catchUps)
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
	case w.step == beginResume && w.cursor >= s.Replayable():
		return object.Replay, nil
	case w.everyEvent:
		return 0, &LostError{Asked: w.cursor, Oldest: s.Replayable(), Current: s.Revision()}
	case s.HasDelta(w.cursor):
		return object.Delta, nil
	}
	return object.Reset, nil
}

// catchUpMessage returns the next part of a RESET or a DELTA, or its end. It returns false
// if the catch-up cannot continue and has to start over.
func (w *Watcher) catchUpMessage() (Message, bool) {
	c := w.catchUp
	if !c.last {
		p := c.first
		if c.first = nil; p == nil {
			state := w.catchUpState()
			if state == nil {
				return Message{}, false
			}
			p = new(w.part(c, state))
		}
		if c.next, c.last = p.next, p.last; c.last {
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
	w.catchUp, w.exact = nil, 0
	w.step = live
	return w.message(object.Synced, payload{})
}

// catchUpState returns a state from which the next part can be made, or nil. If the retained
// state was released, a RESET continues from the newest state, as long as the window still
// reaches back to its revision.
func (w *Watcher) catchUpState() *cacher.State {
	c := w.catchUp
	if s := w.dispatcher.retained.use(c.state); s != nil {
		return s
	}
	s := w.dispatcher.cfg.Source.State()
	if c.kind == object.Reset && s.Position().Epoch == w.epoch && c.from >= s.Replayable() {
		return s
	}
	return nil
}

// part returns the next part of a RESET or a DELTA. Watchers at the same place share it.
func (w *Watcher) part(c *catchUp, s *cacher.State) part {
	makePart := w.resetPart
	if c.kind == object.Delta {
		makePart = w.deltaPart
	}
	return w.feed.catchUps.part(s, partKey{c.kind, c.from, c.next}, &w.dispatcher.catchUps, func() part { return makePart(c, s) })
}

// resetPart makes a part of a snapshot.
func (w *Watcher) resetPart(c *catchUp, s *cacher.State) part {
	interest := &w.feed.interest
	p := part{next: c.next, last: true, end: batchCut{limit: w.dispatcher.cfg.MessageBytes}}
	objects, _ := s.ObjectsAt(c.from, interest.Scope, c.next.Key)
	var last object.Key
	for o := range objects {
		if !interest.Picks(o) {
			continue
		}
		event := w.dispatcher.cfg.Encoder.AddedEvent(o, interest.Projection)
		if !p.end.takeAlone(len(event)) {
			p.last = false
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
	p := part{next: c.next, last: true, end: batchCut{limit: w.dispatcher.cfg.MessageBytes}}
	for d := range s.Since(c.from, interest.Scope, c.next.ChangeID) {
		e := interest.SeeDifference(d, c.from)
		var event []byte
		if e.Type == object.Added {
			event = w.dispatcher.cfg.Encoder.AddedEvent(e.Object, interest.Projection)
		} else {
			event = w.dispatcher.cfg.Encoder.AppendEvent(nil, e, interest.Projection)
		}
		if !p.end.takeAlone(len(event)) {
			p.last = false
			break
		}
		p.pieces = append(p.pieces, event)
		p.next.ChangeID = d.ChangeID
	}
	return p
}
