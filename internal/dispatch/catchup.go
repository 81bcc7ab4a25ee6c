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

// catchUp is the way to the present that a watcher is on.
type catchUp struct {
	kind  object.CatchUp
	from  object.Revision // DELTA: where the watcher was; RESET: the revision that is shown
	to    object.Revision // where the way leads
	state *cacher.State   // of which a RESET or a DELTA is made; a REPLAY needs none
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
	// Whoever arrives at a state must be able to go on from there.
	needed := max(w.needed, w.cursor, newest.Replayable())
	shared := w.feed.memo.join(newest, needed, &d.memos)
	d.keep(w.feed)
	c := catchUp{kind: kind, from: w.cursor}
	switch kind {
	case object.Reset:
		c.state = shared
		if c.from = shared.Revision(); w.exact > 0 {
			c.from = w.exact
		}
		c.to = c.from
		w.epoch, w.cursor = newest.Position().Epoch, 0
	case object.Delta:
		c.state, c.to = shared, shared.Revision()
	case object.Replay:
		c.to = newest.Revision()
	}
	w.sent, w.mergeTo = 0, 0
	w.catchUp, w.step = c, catchingUp
	m := w.message(object.CatchUpBegin, nil)
	m.Header.CatchUp = kind
	return m, nil
}

// wayTo returns the cheapest kind of catch-up that leads the watcher to the state.
func (w *Watcher) wayTo(s *cacher.State) (object.CatchUp, error) {
	epoch := s.Position().Epoch
	switch {
	case w.exact > 0 && (w.exact < s.Replayable() || w.exact > s.Revision()): // of the past, or of another epoch
		return 0, &LostError{Asked: w.exact, Oldest: s.Replayable(), Current: s.Revision()}
	case w.cursor == 0:
		return object.Reset, nil
	case w.epoch != epoch && w.options.EveryEvent:
		return 0, &EpochError{Asked: w.epoch, Current: s.Position()}
	case w.epoch != epoch:
		return object.Reset, nil
	case w.step == beginResume && w.cursor >= s.Replayable():
		return object.Replay, nil
	case w.options.EveryEvent:
		return 0, &LostError{Asked: w.cursor, Oldest: s.Replayable(), Current: s.Revision()}
	case s.Deltable(w.cursor):
		return object.Delta, nil
	}
	return object.Reset, nil
}

// catchUpPart returns the next part of a RESET or a DELTA, or the end of it.
func (w *Watcher) catchUpPart() Message {
	c := &w.catchUp
	if !c.last {
		makePart := w.resetPart
		if c.kind == object.Delta {
			makePart = w.deltaPart
		}
		p := w.feed.memo.part(c.state, partKey{c.kind, c.from, c.mark}, &w.dispatcher.memos, makePart)
		c.mark, c.last = p.next, p.last
		if len(p.pieces) > 0 {
			return w.message(object.CatchUpPart, p.pieces)
		}
	}
	w.cursor = c.to
	return w.synced()
}

func (w *Watcher) synced() Message {
	w.catchUp, w.exact = catchUp{}, 0
	w.step = live
	return w.message(object.Synced, nil)
}

// resetPart makes a part of a snapshot.
func (w *Watcher) resetPart() part {
	c, interest := &w.catchUp, &w.feed.interest
	p := part{next: c.mark, last: true, end: cut{limit: w.dispatcher.cfg.MessageBytes}}
	objects, _ := c.state.ObjectsAt(c.from, interest.Scope, c.mark.Key)
	for o := range objects {
		if !interest.Picks(o) {
			continue
		}
		event := w.dispatcher.cfg.Encoder.AddedEvent(o, interest.View)
		if !p.end.takeAlone(len(event)) {
			p.last = false
			break
		}
		p.pieces = append(p.pieces, event)
		p.next.Key = o.Key + "\x00"
	}
	return p
}

// deltaPart makes a part of what became of the objects that changed.
func (w *Watcher) deltaPart() part {
	c, interest := &w.catchUp, &w.feed.interest
	p := part{next: c.mark, last: true, end: cut{limit: w.dispatcher.cfg.MessageBytes}}
	for d := range c.state.Since(c.from, interest.Scope, c.mark.Mark) {
		e := interest.SeeDifference(d, c.from)
		var event []byte
		if e.Type == object.Added {
			event = w.dispatcher.cfg.Encoder.AddedEvent(e.Object, interest.View)
		} else {
			event = w.dispatcher.cfg.Encoder.AppendEvent(nil, e, interest.View)
		}
		if !p.end.takeAlone(len(event)) {
			p.last = false
			break
		}
		p.pieces = append(p.pieces, event)
		p.next.Mark = d.Mark
	}
	return p
}
