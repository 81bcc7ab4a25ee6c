package catchup

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/dispatch/parts"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Reader reads what comes after a position for the watches of a feed: events from the log or
// the window, and catch-ups. One goroutine at a time uses it.
//
// Package dispatch moves a reader past the messages that it sends: After and Skip. It reads the fields up
// to Skip for each message, so they begin the first cache line of a cursor.
type Reader struct {
	Step       Step
	Latest     bool // merge pending events per key
	EveryEvent bool // fail where other watches get a DELTA or a RESET

	Epoch object.Epoch
	After object.Revision // every event up to this revision has been delivered; 0: a snapshot has to begin
	Skip  int             // number of events after this revision that partial messages have delivered
	Feed  *feed.Feed

	MergeTo object.Revision // a merge up to this revision is being sent in partial messages; 0: none
	Needed  object.Revision // the lowest revision to which the next RESET or DELTA may lead
	Exact   object.Revision // the revision of the next snapshot; 0: any
	catchUp *catchUp        // nil: none is under way
}

// Step is what comes next. docs/dev/watches.md relates it to the other states of a watch.
type Step uint8

const (
	StepSnapshot Step = iota // announce a snapshot
	StepResume               // announce the catch-up from a position to the present
	StepNow                  // send the present position
	StepBehind               // announce a catch-up: the next events are gone
	StepCatchUp              // send the catch-up
	StepLive                 // send events as they come
)

// FirstStep is the first step of a watch with each kind of beginning.
var FirstStep = [...]Step{BeginFromSnapshot: StepSnapshot, BeginFromPosition: StepResume, BeginFromNow: StepNow}

// NewReader returns a reader for a watch that begins.
func NewReader(f *feed.Feed, b Begin, latest, everyEvent bool) Reader {
	r := Reader{
		Feed: f, Latest: latest, EveryEvent: everyEvent, Step: FirstStep[b.Kind],
		Epoch: b.Position.Epoch, After: b.Position.Revision, Needed: b.Needed, Exact: b.Exact,
	}
	if b.Kind != BeginFromNow {
		r.Needed = max(r.Needed, f.ChangedAt())
	}
	return r
}

// At returns the position up to which everything has been delivered.
func (r *Reader) At() object.Position {
	return object.Position{Epoch: r.Epoch, Revision: r.After}
}

// NextMessage returns the next message of a catch-up, or of events that the log does not have. It returns
// false if there is none: SYNCED comes next, or the log has the next events.
func (r *Reader) NextMessage() (feed.Message, bool, error) {
	for {
		switch r.Step {
		case StepCatchUp:
			if p := r.catchUpPart(); !p.Lost {
				return r.message(object.CatchUpPart, p), p.End.Taken > 0, nil
			}
			r.Step = StepBehind
		case StepLive:
			if v := r.Feed.View.Load(); r.Skip == 0 && r.MergeTo == 0 && r.InLog(v) && !r.NeedsMerge(v) {
				return feed.Message{}, false, nil
			}
			if p := r.events(); !p.Lost {
				return r.message(object.Live, p), p.End.Taken > 0, nil
			}
			r.Step = StepBehind
		default:
			m, err := r.startCatchUp()
			return m, err == nil, err
		}
	}
}

// message returns a message with the events of a part.
func (r *Reader) message(kind object.MessageKind, p parts.Part) feed.Message {
	m := feed.Message{
		Events: p.Pieces,
		Count:  p.End.Taken,
		Header: object.Header{Kind: kind, Position: r.At(), Partial: r.Skip > 0},
	}
	switch kind {
	case object.Live:
		m.Arrived = p.Arrived
		m.Header.Age = r.Feed.Feeds.LiveAge(time.Now(), p.Arrived, p.End.HasMore)
	case object.Bookmark:
		m.Header.Age = r.Feed.Feeds.StatedAge(time.Now())
	}
	return m
}

// events returns the next events and moves the reader past them. If there are none, the reader is at
// the present, unless they are lost. It reads the window if the log begins after the reader, if the log
// ends before the end of a REPLAY, or if events have to be merged. Otherwise it reads the log.
func (r *Reader) events() parts.Part {
	var to object.Revision
	if r.catchUp != nil {
		to = r.catchUp.to
	}
	if r.Step == StepCatchUp && r.Skip == 0 && r.After >= to {
		return parts.Part{}
	}
	// The order matters: dispatchedUpTo is loaded before the view, so the view has every
	// event up to that revision.
	dispatchedUpTo := r.dispatchedUpTo()
	v := r.Feed.View.Load()
	logged := r.InLog(v) && dispatchedUpTo >= to
	var p parts.Part
	switch {
	case r.MergeTo > 0, r.Latest && r.Skip == 0 && !(logged && v.Distinct(r.After)):
		return r.merged()
	case logged:
		pieces, end, first := v.Read(r.After, r.Skip, r.Feed.Feeds.Config.MessageBytes, feed.AllRevisions)
		if r.Latest && end.Partial {
			// The message ends inside a revision. The next messages send the rest of this
			// revision as a merge that ends with the revision. Later events are merged
			// afterwards.
			r.MergeTo = end.Current
		}
		p = parts.Part{Pieces: pieces, End: end, Arrived: r.Feed.Feeds.Created.Add(first.Arrived), CompleteUpTo: dispatchedUpTo}
	default:
		p = r.windowPart(parts.Key{Kind: object.Replay, Start: r.nextInWindow()}, r.replayPart)
	}
	if p.Lost {
		return p
	}
	r.After, r.Skip = p.End.Advance(r.After, r.Skip)
	if p.End.Taken == 0 {
		r.After = max(r.After, p.CompleteUpTo)
	}
	return p
}

// InLog reports whether the view has all events that come next.
func (r *Reader) InLog(v *feed.View) bool { return v.Covers(r.At()) }

// dispatchedUpTo returns the revision of Feeds.DispatchedUpTo, or 0 if that position
// belongs to another epoch than the reader.
func (r *Reader) dispatchedUpTo() object.Revision {
	if p := r.Feed.Feeds.DispatchedUpTo.Load(); p.Epoch == r.Epoch {
		return p.Revision
	}
	return 0
}

// nextInWindow returns the start of the next part that is read from the window.
func (r *Reader) nextInWindow() parts.Start {
	return parts.Start{ChangeID: cacher.ChangeID{At: r.After}, Skip: r.Skip, Epoch: r.Epoch}
}

// windowPart returns a part that is made from the window. Readers that need the same part
// share it.
func (r *Reader) windowPart(key parts.Key, makePart func() parts.Part) parts.Part {
	d := r.Feed.Feeds
	if r.Feed.CatchUps.Start(d.Config.Source.State()) {
		d.Remember(r.Feed)
	}
	return r.Feed.CatchUps.Part(nil, key, &d.CatchUps, func() (p parts.Part) {
		d.Config.Turns.Do(func() { p = makePart() })
		return p
	})
}

// replayPart makes a part from the window. The part has the next events.
func (r *Reader) replayPart() parts.Part {
	s := r.Feed.Feeds.Config.Source.State()
	changes, ok := s.Changes(r.After)
	if !ok || s.Position().Epoch != r.Epoch {
		return parts.Part{Lost: true}
	}
	p := parts.Part{End: parts.Cut{Limit: r.Feed.Feeds.Config.MessageBytes, UpTo: r.After}, CompleteUpTo: s.Revision()}
	interest := &r.Feed.Interest
	skip := r.Skip
	var b []byte
	for c, arrived := range changes {
		e, ok := interest.See(c)
		if !ok {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		before := len(b)
		b = r.Feed.Feeds.Config.Encoder.AppendEvent(b, e, interest.Projection)
		if !p.End.Take(c.Revision, len(b)-before) {
			p.CompleteUpTo = 0
			break
		}
		if p.End.Taken == 1 {
			p.Arrived = arrived
		}
	}
	if p.End.Taken > 0 {
		p.Pieces = [][]byte{b[:p.End.Bytes:p.End.Bytes]}
	}
	return p
}

// Bookmark returns a Bookmark.
func (r *Reader) Bookmark() feed.Message { return r.message(object.Bookmark, parts.Part{}) }

// NextBatch returns the next batch from the log, or nil if there is none. It returns false if the log
// does not have it, or if events have to be merged.
func (r *Reader) NextBatch(now time.Time) (b *feed.Batch, ok bool) {
	// The order of the two loads matters; see Reader.events.
	dispatchedUpTo := r.dispatchedUpTo()
	v := r.Feed.View.Load()
	if !r.InLog(v) || r.MergeTo > 0 {
		return nil, false
	}
	b = r.Feed.Batch(feed.Start{View: v, After: r.After, Skip: r.Skip}, now)
	switch {
	case b == nil:
		r.After = max(r.After, dispatchedUpTo)
	case r.Latest && r.Skip == 0 && !b.Distinct():
		return nil, false
	}
	return b, true
}

// Pass moves the reader past a batch.
func (r *Reader) Pass(b *feed.Batch) {
	if r.Latest && b.End.Partial {
		r.MergeTo = b.End.Current // see Reader.events
	}
	r.After, r.Skip = b.End.Advance(r.After, r.Skip)
}
