package dispatch

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// merged takes the events after the cursor from the window, merged per key. They
// belong together: the cursor goes behind them when all have been taken. The
// revision up to which they are merged is kept, and nothing else, so that the
// next part can be made from the window again.
func (w *Watcher) merged() (batch, result) {
	var p part
	if w.step == live {
		// Hardly anybody has as much waiting, from the same place to the same.
		if w.mergeTo == 0 {
			w.mergeTo = w.dispatcher.cfg.Source.State().Revision()
		}
		p = w.mergedPart()
	} else {
		if w.mergeTo == 0 {
			w.mergeTo = w.catchUp.to
		}
		p = w.shared(partKey{kind: object.Replay, from: w.mergeTo, mark: w.here()}, w.mergedPart)
	}
	switch {
	case p.lost:
		return batch{}, lostHistory
	case !p.last:
		w.sent += p.end.taken
		return p.batch(), someEvents
	}
	w.cursor, w.mergeTo, w.sent = w.mergeTo, 0, 0
	if p.end.taken == 0 {
		return batch{}, upToDate
	}
	return p.batch(), someEvents
}

func (w *Watcher) mergedPart() part {
	s := w.dispatcher.cfg.Source.State()
	changes, ok := s.Changes(w.cursor)
	if !ok || s.Position().Epoch != w.epoch {
		return part{lost: true}
	}
	p := part{end: cut{limit: w.dispatcher.cfg.MessageBytes, upto: w.cursor}, last: true}
	interest := &w.feed.interest
	skip := w.sent
	var b []byte
	resumes := w.step == catchingUp
	for _, c := range interest.merge(changes, w.mergeTo) {
		e, ok := interest.See(&c.Change)
		if !ok && resumes && c.passed != nil {
			// A client that was cut off within the parts of a message may have what
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

// merged is what the changes of one key are together.
type merged struct {
	object.Change                // from what was before the first to what is after the last
	passed        *object.Object // the last that was in view in between; nil: none
	place         int
	arrived       time.Time // the first
}

// merge returns the changes up to a revision, those of one key merged into one, in
// the order in which the window has the last.
func (i *Interest) merge(changes iter.Seq2[*object.Change, time.Time], upto object.Revision) []merged {
	all := map[object.Key]merged{}
	place := 0
	for c, arrived := range changes {
		if c.Revision > upto {
			break
		}
		if !i.Scope.Contains(c.Key) {
			continue
		}
		place++
		m := merged{Change: *c, place: place, arrived: arrived}
		if before, ok := all[c.Key]; ok {
			m.Old, m.passed, m.arrived = before.Old, before.passed, before.arrived
			if i.Picks(c.Old) {
				m.passed = c.Old
			}
		}
		all[c.Key] = m
	}
	return slices.SortedFunc(maps.Values(all), func(a, b merged) int { return cmp.Compare(a.place, b.place) })
}
