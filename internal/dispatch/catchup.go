package dispatch

import (
	"fmt"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// LostError says that a watcher who wants every event cannot have them, or that
// the snapshot that it begins with can no longer be told.
type LostError struct {
	Asked   object.Revision // where the watcher is
	Oldest  object.Revision // after this one every event is known
	Current object.Revision
}

func (e *LostError) Error() string {
	return fmt.Sprintf("not every event after revision %d is known, only those after %d", e.Asked, e.Oldest)
}

// EpochError says that a watcher who wants every event comes from another history
// than the present one.
type EpochError struct {
	Asked   object.Epoch
	Current object.Position
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("the epoch is %s and not %s: the store is another one, or was restored from a backup", e.Current.Epoch, e.Asked)
}

// catchUp is the way to the present that a watcher is on. Between two messages it
// keeps no state for itself: a client that does not read would keep it for as long.
type catchUp struct {
	kind  object.CatchUp
	from  object.Revision // DELTA: where the watcher was; RESET: the revision that is shown
	to    object.Revision // where the way leads
	first *part           // made before the way was announced; nil: on its way
	pin   *pin            // of a RESET or a DELTA of several parts: the state of which they are made
	mark  mark            // where the next part begins
	last  bool            // the last part is on its way
}

// startCatchUp decides how the watcher is brought to the present, and announces it.
func (w *Watcher) startCatchUp() (Message, error) {
	d := w.dispatcher
	newest := d.cfg.Source.State()
	kind, err := w.wayTo(newest)
	if err != nil {
		return Message{}, err
	}
	c := &catchUp{kind: kind, from: w.cursor, to: newest.Revision()}
	if kind == object.Reset {
		if epoch := newest.Position().Epoch; w.epoch != epoch {
			if w.epoch != "" {
				w.needed = 0 // a revision of another epoch
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
		// Most ways have one part. Of those nothing has to be kept.
		first := w.part(c, state)
		c.first = &first
		if !first.last {
			c.pin = d.pins.take(state)
		}
	}
	w.abandon()
	w.sent, w.mergeTo = 0, 0
	w.catchUp, w.step = c, catchingUp
	m := w.message(object.CatchUpBegin, batch{})
	m.Header.CatchUp = kind
	return m, nil
}

// target returns the state to which a RESET or a DELTA leads: the one that others who
// begin at the same time are being brought to, or the newest. Who begins anew joins
// those who have come after it and are under way already, so as not to take the
// place of a state that somebody is reading.
func (w *Watcher) target(newest *cacher.State) *cacher.State {
	d := w.dispatcher
	needed := max(w.needed, w.cursor)
	if w.catchUp != nil {
		s := d.pins.oldest(newest.Position().Epoch, needed)
		// Whoever arrives at a state must be able to go on from there.
		if s != nil && (s.Revision() >= newest.Replayable() || !w.everyEvent && newest.HasDelta(s.Revision())) {
			return s
		}
	}
	s := w.feed.memo.join(newest, max(needed, newest.Replayable()), &d.memos)
	d.keep(w.feed)
	w.needed = s.Revision()
	return s
}

// abandon ends the catch-up that the watcher is on, if it is on one.
func (w *Watcher) abandon() {
	if w.catchUp != nil {
		w.dispatcher.pins.release(w.catchUp.pin)
		w.catchUp = nil
	}
}

// wayTo returns the cheapest kind of catch-up that leads the watcher to the state.
func (w *Watcher) wayTo(s *cacher.State) (object.CatchUp, error) {
	epoch := s.Position().Epoch
	switch {
	case w.exact > 0 && (w.exact < s.Replayable() || w.exact > s.Revision()): // of the past, or of another epoch
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

// catchUpPart returns the next part of a RESET or a DELTA, or the end of it. It
// returns false where it cannot be gone on with and has to begin anew.
func (w *Watcher) catchUpPart() (Message, bool) {
	c := w.catchUp
	if !c.last {
		p := c.first
		if c.first = nil; p == nil {
			state := w.pinned()
			if state == nil {
				return Message{}, false
			}
			p = new(w.part(c, state))
		}
		if c.mark, c.last = p.next, p.last; c.last {
			w.dispatcher.pins.release(c.pin)
			c.pin = nil
		}
		if len(p.pieces) > 0 {
			return w.message(object.CatchUpPart, p.batch()), true
		}
	}
	w.cursor = c.to
	return w.synced(), true
}

func (w *Watcher) synced() Message {
	w.catchUp, w.exact = nil, 0
	w.step = live
	return w.message(object.Synced, batch{})
}

// pinned returns a state of which the next part can be made, or nil. The revision
// that a RESET shows can be seen from the present for as long as the window has what
// happened since, so a reader who is quick enough needs no other state.
func (w *Watcher) pinned() *cacher.State {
	c := w.catchUp
	if s := w.dispatcher.pins.use(c.pin); s != nil {
		return s
	}
	s := w.dispatcher.cfg.Source.State()
	if c.kind == object.Reset && s.Position().Epoch == w.epoch && c.from >= s.Replayable() {
		return s
	}
	return nil
}

// part returns the next part of a RESET or a DELTA, which those who are at the same
// place share.
func (w *Watcher) part(c *catchUp, s *cacher.State) part {
	makePart := w.resetPart
	if c.kind == object.Delta {
		makePart = w.deltaPart
	}
	return w.feed.memo.part(s, partKey{c.kind, c.from, c.mark}, &w.dispatcher.memos, func() part { return makePart(c, s) })
}

// resetPart makes a part of a snapshot.
func (w *Watcher) resetPart(c *catchUp, s *cacher.State) part {
	interest := &w.feed.interest
	p := part{next: c.mark, last: true, end: cut{limit: w.dispatcher.cfg.MessageBytes}}
	objects, _ := s.ObjectsAt(c.from, interest.Scope, c.mark.Key)
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

// deltaPart makes a part of what became of the objects that changed.
func (w *Watcher) deltaPart(c *catchUp, s *cacher.State) part {
	interest := &w.feed.interest
	p := part{next: c.mark, last: true, end: cut{limit: w.dispatcher.cfg.MessageBytes}}
	for d := range s.Since(c.from, interest.Scope, c.mark.ChangeID) {
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
