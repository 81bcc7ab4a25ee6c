package dispatch

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// merged takes the events after the cursor from the window, merged per key. The cursor moves
// past them when all parts have been sent. Between two parts the watcher keeps only the
// revision up to which it merges, because the next part can be made from the window again.
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
	resumes := w.step == catchingUp
	for _, c := range interest.merge(changes, w.mergeTo) {
		e, ok := interest.See(&c.Change)
		if !ok && resumes && c.passed != nil {
			// A client that was cut off inside a partial message may have an object that
			// came and went, and its position does not say so.
			e, ok = object.Event{Type: object.Deleted, Revision: c.EventRevision(), Key: c.Key, Object: c.passed, Previous: c.passed}, true
		}
		if !ok {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		before := len(b)
		b = w.dispatcher.cfg.Encoder.AppendEvent(b, e, interest.Projection)
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

// mergedChange is the changes of one key, merged into one.
type mergedChange struct {
	object.Change                // from the object before the first to the object after the last
	passed        *object.Object // the last object in view in between; nil: none
	order         int
	arrived       time.Time // of the first
}

// merge returns the changes up to a revision with those of one key merged into one, in the
// order of the last change of each key.
func (i *Interest) merge(changes iter.Seq2[*object.Change, time.Time], upto object.Revision) []mergedChange {
	all := map[object.Key]mergedChange{}
	order := 0
	for c, arrived := range changes {
		if c.Revision > upto {
			break
		}
		if !i.Scope.Contains(c.Key) {
			continue
		}
		order++
		m := mergedChange{Change: *c, order: order, arrived: arrived}
		if before, ok := all[c.Key]; ok {
			m.Old, m.passed, m.arrived = before.Old, before.passed, before.arrived
			if i.Picks(c.Old) {
				m.passed = c.Old
			}
		}
		all[c.Key] = m
	}
	return slices.SortedFunc(maps.Values(all), func(a, b mergedChange) int { return cmp.Compare(a.order, b.order) })
}
