package dispatch

import (
	"math"

	"github.com/fanoutd/fanoutd/internal/object"
)

// merged returns the events after the cursor. It reads the changes of the window and merges
// those of each key. The cursor moves only with the last message of a merge. Between two
// messages, the watcher keeps only the fields mergeTo and sent, so it repeats the merge for
// each message.
func (r *reader) merged() (payload, readResult) {
	var p part
	if r.step == stepLive {
		// Sharing the work is not worth its cost, because hardly any two live watchers need
		// the same events.
		if r.mergeTo == 0 {
			r.mergeTo = r.feed.feeds.cfg.Source.State().Revision()
		}
		p = r.mergedPart(r.feed.feeds.cfg.MessageBytes)
	} else {
		if r.mergeTo == 0 {
			r.mergeTo = r.catchUp.to
		}
		p = r.windowPart(partKey{kind: object.Replay, to: r.mergeTo, start: r.nextInWindow()}, func() part { return r.mergedPart(r.feed.feeds.cfg.MessageBytes) })
	}
	switch {
	case p.lost:
		return payload{}, readLost
	case !p.isLast:
		r.skip += p.end.taken
		return payloadOf(&p), readEvents
	}
	r.after, r.mergeTo, r.skip = r.mergeTo, 0, 0
	if p.end.taken == 0 {
		return payload{}, readUpToDate
	}
	return payloadOf(&p), readEvents
}

// needsMerge reports whether the next events have to be merged.
func (r *reader) needsMerge(v *view) bool { return r.latest && r.skip == 0 && !v.distinct(r.after) }

// mergedPart makes the next message of a merge from the window. The limit is that of the size of
// its events.
func (r *reader) mergedPart(limit int) part {
	s := r.feed.feeds.cfg.Source.State()
	changes, ok := s.Changes(r.after)
	if !ok || s.Position().Epoch != r.epoch {
		return part{lost: true}
	}
	p := part{end: batchCut{limit: limit, upTo: r.after}, isLast: true}
	interest := &r.feed.interest
	skip := r.skip
	var b []byte
	for _, c := range interest.Merge(changes, r.mergeTo, r.step == stepCatchUp) {
		if skip > 0 {
			skip--
			continue
		}
		before := len(b)
		b = r.feed.feeds.cfg.Encoder.AppendEvent(b, c.Event, interest.Projection)
		if !p.end.take(r.mergeTo, len(b)-before) {
			p.isLast = false
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

// mergedBatch returns the merged events up to the cut, and moves the reader to the cut. It returns
// false if the window does not have the events any more.
func (r *reader) mergedBatch(cut object.Revision) (*Batch, bool) {
	r.mergeTo = cut
	p := r.mergedPart(math.MaxInt)
	r.mergeTo = 0
	if p.lost {
		return nil, false
	}
	r.after = cut
	return &Batch{Message: r.message(object.Live, payloadOf(&p))}, true
}
