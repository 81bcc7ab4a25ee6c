package dispatch

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// merged takes the events after the cursor from the window, merged per key. The cursor moves
// past them with the last partial message. Between two messages the watcher keeps only the
// revision up to which it merges, because the next one can be made from the window again.
func (w *Watcher) merged() (payload, result) {
	var p part
	if w.step == live {
		// Sharing does not pay: hardly any two watchers miss the same events.
		if w.mergeTo == 0 {
			w.mergeTo = w.dispatcher.cfg.Source.State().Revision()
		}
		p = w.mergedPart()
	} else {
		if w.mergeTo == 0 {
			w.mergeTo = w.catchUp.to
		}
		p = w.shared(partKey{kind: object.Replay, from: w.mergeTo, place: w.here()}, w.mergedPart)
	}
	switch {
	case p.lost:
		return payload{}, lostHistory
	case !p.last:
		w.sent += p.end.taken
		return p.payload(), someEvents
	}
	w.cursor, w.mergeTo, w.sent = w.mergeTo, 0, 0
	if p.end.taken == 0 {
		return payload{}, upToDate
	}
	return p.payload(), someEvents
}

func (w *Watcher) mergedPart() part {
	s := w.dispatcher.cfg.Source.State()
	changes, ok := s.Changes(w.cursor)
	if !ok || s.Position().Epoch != w.epoch {
		return part{lost: true}
	}
	p := part{end: batchCut{limit: w.dispatcher.cfg.MessageBytes, upto: w.cursor}, last: true}
	interest := &w.feed.interest
	skip := w.sent
	var b []byte
	for _, c := range interest.Merge(changes, w.mergeTo, w.step == catchingUp) {
		if skip > 0 {
			skip--
			continue
		}
		before := len(b)
		b = w.dispatcher.cfg.Encoder.AppendEvent(b, c.Event, interest.Projection)
		if !p.end.take(w.mergeTo, len(b)-before) {
			p.last = false
			break
		}
		if p.arrived.IsZero() || c.arrived.Before(p.arrived) {
			p.arrived = c.arrived
		}
	}
	if p.end.taken > 0 {
		p.pieces = [][]byte{b[:p.end.bytes:p.end.bytes]}
	}
	return p
}

// MergedChange has the changes of one key, merged into one.
type MergedChange struct {
	object.Change              // from the object before the first to the object after the last
	Event         object.Event // of the change

	arrived time.Time      // of the first change
	passed  *object.Object // the last intermediate object that the interest matched; nil: none
	order   int            // number of the last change, for sorting
}

// Merge returns the changes up to a revision with those of each key merged into one, in the
// order of the last change of each key. It leaves out changes that the interest does not
// see.
//
// In a replay, a key that was created and deleted in between yields a DELETED event, because
// a client that was cut off inside a partial message may have the object.
func (i *Interest) Merge(changes iter.Seq2[*object.Change, time.Time], upto object.Revision, replay bool) []MergedChange {
	byKey := map[object.Key]MergedChange{}
	order := 0
	for c, arrived := range changes {
		if c.Revision > upto {
			break
		}
		if !i.Scope.Contains(c.Key) {
			continue
		}
		order++
		m := MergedChange{Change: *c, order: order, arrived: arrived}
		if before, ok := byKey[c.Key]; ok {
			m.Old, m.passed, m.arrived = before.Old, before.passed, before.arrived
			if i.Picks(c.Old) {
				m.passed = c.Old
			}
		}
		byKey[c.Key] = m
	}
	seen := make([]MergedChange, 0, len(byKey))
	for _, m := range byKey {
		e, ok := i.See(&m.Change)
		if !ok && replay && m.passed != nil {
			m.Old = m.passed
			e, ok = i.See(&m.Change)
		}
		if ok {
			m.Event = e
			seen = append(seen, m)
		}
	}
	slices.SortFunc(seen, func(a, b MergedChange) int { return cmp.Compare(a.order, b.order) })
	return seen
}
