package catchup

import (
	"math"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/dispatch/parts"
	"github.com/fanoutd/fanoutd/internal/object"
)

// merged returns the events after the position. It reads the changes of the window and merges
// those of each key. The reader moves only with the last message of a merge. Between two
// messages, the reader keeps only the fields MergeTo and Skip, so it repeats the merge for
// each message.
func (r *Reader) merged() parts.Part {
	var p parts.Part
	if r.Step == StepLive {
		// Sharing the work is not worth its cost, because hardly any two live watches need
		// the same events.
		if r.MergeTo == 0 {
			r.MergeTo = r.Feed.Feeds.Config.Source.State().Revision()
		}
		p = r.mergedPart(r.Feed.Feeds.Config.MessageBytes)
	} else {
		if r.MergeTo == 0 {
			r.MergeTo = r.catchUp.to
		}
		p = r.windowPart(parts.Key{Kind: object.Replay, To: r.MergeTo, Start: r.nextInWindow()}, func() parts.Part { return r.mergedPart(r.Feed.Feeds.Config.MessageBytes) })
	}
	if p.IsLast {
		r.After, r.MergeTo, r.Skip = r.MergeTo, 0, 0
	} else {
		r.Skip += p.End.Taken
	}
	return p
}

// NeedsMerge reports whether the next events have to be merged.
func (r *Reader) NeedsMerge(v *feed.View) bool {
	return r.Latest && r.Skip == 0 && !v.Distinct(r.After)
}

// mergedPart makes the next message of a merge from the window. The limit is that of the size of
// its events.
func (r *Reader) mergedPart(limit int) parts.Part {
	s := r.Feed.Feeds.Config.Source.State()
	changes, ok := s.Changes(r.After)
	if !ok || s.Position().Epoch != r.Epoch {
		return parts.Part{Lost: true}
	}
	p := parts.Part{End: parts.Cut{Limit: limit, UpTo: r.After}, IsLast: true}
	interest := &r.Feed.Interest
	skip := r.Skip
	var b []byte
	for _, c := range interest.Merge(changes, r.MergeTo, r.Step == StepCatchUp) {
		if skip > 0 {
			skip--
			continue
		}
		before := len(b)
		b = r.Feed.Feeds.Config.Encoder.AppendEvent(b, c.Event, interest.Projection)
		if !p.End.Take(r.MergeTo, len(b)-before) {
			p.IsLast = false
			break
		}
		if p.Arrived.IsZero() || c.Arrived.Before(p.Arrived) {
			p.Arrived = c.Arrived
		}
	}
	if p.End.Taken > 0 {
		p.Pieces = [][]byte{b[:p.End.Bytes:p.End.Bytes]}
	}
	return p
}

// MergedBatch returns the merged events up to the cut, and moves the reader to the cut. It returns
// false if the window does not have the events any more.
func (r *Reader) MergedBatch(cut object.Revision) (*feed.Batch, bool) {
	r.MergeTo = cut
	p := r.mergedPart(math.MaxInt)
	r.MergeTo = 0
	if p.Lost {
		return nil, false
	}
	r.After = cut
	return &feed.Batch{Message: r.message(object.Live, p)}, true
}
