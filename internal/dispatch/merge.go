package dispatch

import (
	"cmp"
	"iter"
	"slices"
	"time"

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
			r.mergeTo = r.feed.dispatcher.cfg.Source.State().Revision()
		}
		p = r.mergedPart(r.feed.dispatcher.cfg.MessageBytes)
	} else {
		if r.mergeTo == 0 {
			r.mergeTo = r.catchUp.to
		}
		p = r.windowPart(partKey{kind: object.Replay, to: r.mergeTo, start: r.nextInWindow()}, func() part { return r.mergedPart(r.feed.dispatcher.cfg.MessageBytes) })
	}
	switch {
	case p.lost:
		return payload{}, readLost
	case !p.isLast:
		r.skip += p.end.taken
		return p.payload(), readEvents
	}
	r.after, r.mergeTo, r.skip = r.mergeTo, 0, 0
	if p.end.taken == 0 {
		return payload{}, readUpToDate
	}
	return p.payload(), readEvents
}

// needsMerge reports whether the next events have to be merged.
func (r *reader) needsMerge(v *view) bool { return r.latest && r.skip == 0 && !v.distinct(r.after) }

// mergedPart makes the next message of a merge from the window. The limit is that of the size of
// its events.
func (r *reader) mergedPart(limit int) part {
	s := r.feed.dispatcher.cfg.Source.State()
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
		b = r.feed.dispatcher.cfg.Encoder.AppendEvent(b, c.Event, interest.Projection)
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

// MergedChange is one change that stands for all changes of a key.
type MergedChange struct {
	object.Change              // from the object before the first change to the object after the last
	Event         object.Event // the event that the merged change causes

	arrived   time.Time      // when the first change came from the store
	lastMatch *object.Object // the latest intermediate version of the object that the selector matched; nil: none
	order     int            // number of the last change, for sorting
}

// Merge merges all changes of a key into one. It ignores changes after the revision upTo and
// changes that the interest does not see. The merged changes are in the order of each key's
// last change. Merge leaves out merged changes that cause no event.
//
// In a replay, there is also a DELETED event for a key that was first created and then deleted.
// The client may have the object, if the client was cut off between two messages of one revision.
func (i *Interest) Merge(changes iter.Seq2[*object.Change, time.Time], upTo object.Revision, replay bool) []MergedChange {
	byKey := map[object.Key]MergedChange{}
	order := 0
	for c, arrived := range changes {
		if c.Revision > upTo {
			break
		}
		if !i.Scope.Contains(c.Key) || !i.Picks(c.Old) && !i.Picks(c.New) {
			// Changes that the interest does not see do not count. If an object stops matching and is
			// deleted later, its DELETED event has the revision at which it stopped matching.
			continue
		}
		order++
		m := MergedChange{Change: *c, order: order, arrived: arrived}
		if before, ok := byKey[c.Key]; ok {
			m.Old, m.lastMatch, m.arrived = before.Old, before.lastMatch, before.arrived
			if i.Picks(c.Old) {
				m.lastMatch = c.Old
			}
		}
		byKey[c.Key] = m
	}
	seen := make([]MergedChange, 0, len(byKey))
	for _, m := range byKey {
		e, ok := i.See(&m.Change)
		if !ok && replay && m.lastMatch != nil {
			m.Old = m.lastMatch
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
