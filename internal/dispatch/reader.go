package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Message is one message of a watch. Watchers share the encoded events and must not modify
// them.
type Message struct {
	Events [][]byte // the encoded events; a piece may have several of them
	Count  int      // the number of events
	Header object.Header

	// Arrived is when the first of the changes came from the store. It is zero if this time
	// is unknown or the message is not live. The events of a catch-up have waited for an
	// absent client, so they do not show the latency of the server.
	Arrived time.Time
}

// size returns the size of the events.
func (m *Message) size() int {
	n := 0
	for _, piece := range m.Events {
		n += len(piece)
	}
	return n
}

// payload has the events of a message.
type payload struct {
	pieces  [][]byte
	count   int
	arrived time.Time // when the first of the changes came from the store
	more    bool      // more events wait for the watch
}

// reader reads what comes after a position for the watches of a feed: events from the log or
// the window, and catch-ups. One goroutine at a time uses it.
//
// A group reads the fields up to skip for each message. They begin the first cache line of a
// cursor.
type reader struct {
	step       step
	latest     bool // see [Options]
	everyEvent bool // see [Options]

	epoch object.Epoch
	after object.Revision // every event up to this revision has been delivered; 0: a snapshot has to begin
	skip  int             // number of events after this revision that partial messages have delivered
	feed  *feed

	mergeTo object.Revision // a merge up to this revision is being sent in partial messages; 0: none
	needed  object.Revision // the lowest revision to which the next RESET or DELTA may lead
	exact   object.Revision // the revision of the next snapshot; 0: any
	catchUp *catchUp        // nil: none is under way
}

// step is what comes next.
type step uint8

const (
	stepSnapshot step = iota // announce a snapshot
	stepResume               // announce the catch-up from a position to the present
	stepNow                  // send the present position
	stepBehind               // announce a catch-up: the next events are gone
	stepCatchUp              // send the catch-up
	stepLive                 // send events as they come
)

var firstStep = [...]step{BeginFromSnapshot: stepSnapshot, BeginFromPosition: stepResume, BeginFromNow: stepNow}

// newReader returns a reader for a watch that begins.
func newReader(f *feed, b Begin, o *Options) reader {
	r := reader{
		feed: f, latest: o.Latest, everyEvent: o.EveryEvent, step: firstStep[b.Kind],
		epoch: b.Position.Epoch, after: b.Position.Revision, needed: b.Needed, exact: b.Exact,
	}
	if b.Kind != BeginFromNow {
		r.needed = max(r.needed, f.changedAt())
	}
	return r
}

// at returns the position up to which everything has been delivered.
func (r *reader) at() object.Position {
	return object.Position{Epoch: r.epoch, Revision: r.after}
}

// nextMessage returns the next message of a catch-up, or of events that the log does not have. It returns
// false if there is none: SYNCED comes next, or the log has the next events.
func (r *reader) nextMessage() (Message, bool, error) {
	for {
		switch r.step {
		case stepCatchUp:
			switch p, result := r.catchUpPart(); result {
			case readEvents:
				return r.message(object.CatchUpPart, p), true, nil
			case readUpToDate:
				return Message{}, false, nil
			case readLost:
				r.step = stepBehind
			}
		case stepLive:
			if v := r.feed.view.Load(); r.skip == 0 && r.mergeTo == 0 && r.inLog(v) && !r.needsMerge(v) {
				return Message{}, false, nil
			}
			switch p, result := r.events(); result {
			case readEvents:
				return r.message(object.Live, p), true, nil
			case readUpToDate:
				return Message{}, false, nil
			case readLost:
				r.step = stepBehind
			}
		default:
			m, err := r.startCatchUp()
			return m, err == nil, err
		}
	}
}

func (r *reader) message(kind object.MessageKind, p payload) Message {
	m := Message{
		Events: p.pieces,
		Count:  p.count,
		Header: object.Header{Kind: kind, Position: r.at(), Partial: r.skip > 0},
	}
	switch kind {
	case object.Live:
		m.Arrived = p.arrived
		m.Header.Age = r.feed.dispatcher.liveAge(time.Now(), p.arrived, p.more)
	case object.Bookmark:
		m.Header.Age = r.feed.dispatcher.statedAge(time.Now())
	}
	return m
}

// readResult is the result of reading the next events.
type readResult uint8

const (
	readEvents   readResult = iota // there are events, and the reader has moved past them
	readUpToDate                   // there are no events, and the reader is at the present
	readLost                       // the events are gone
)

// events returns the next events and moves the reader past them. It reads the window if the log
// begins after the reader, if the log ends before the end of a REPLAY, or if events have to be
// merged. Otherwise it reads the log.
func (r *reader) events() (payload, readResult) {
	var to object.Revision
	if r.catchUp != nil {
		to = r.catchUp.to
	}
	if r.step == stepCatchUp && r.skip == 0 && r.after >= to {
		return payload{}, readUpToDate
	}
	// The order matters: dispatchedUpTo is loaded before the view, so the view has every
	// event up to that revision.
	dispatchedUpTo := r.dispatchedUpTo()
	v := r.feed.view.Load()
	logged := r.inLog(v) && dispatchedUpTo >= to
	switch {
	case r.mergeTo > 0, r.latest && r.skip == 0 && !(logged && v.distinct(r.after)):
		return r.merged()
	case logged:
		pieces, end, first := v.read(r.after, r.skip, r.feed.dispatcher.cfg.MessageBytes, allRevisions)
		if r.latest && end.partial {
			// The message ends inside a revision. The next messages send the rest of this
			// revision as a merge that ends with the revision. Later events are merged
			// afterwards.
			r.mergeTo = end.current
		}
		return payload{pieces, end.taken, r.feed.dispatcher.created.Add(first.arrived), end.hasMore}, r.advance(end, dispatchedUpTo)
	}
	p := r.windowPart(partKey{kind: object.Replay, start: r.nextInWindow()}, r.replayPart)
	if p.lost {
		return payload{}, readLost
	}
	return p.payload(), r.advance(p.end, p.completeUpTo)
}

// inLog reports whether the view has all events that come next.
func (r *reader) inLog(v *view) bool { return v.covers(r.at()) }

// dispatchedUpTo returns the revision of Dispatcher.dispatchedUpTo, or 0 if that position
// belongs to another epoch than the reader.
func (r *reader) dispatchedUpTo() object.Revision {
	if p := r.feed.dispatcher.dispatchedUpTo.Load(); p != nil && p.Epoch == r.epoch {
		return p.Revision
	}
	return 0
}

// nextInWindow returns the start of the next part that is read from the window.
func (r *reader) nextInWindow() partStart {
	return partStart{ChangeID: cacher.ChangeID{At: r.after}, skip: r.skip, epoch: r.epoch}
}

// windowPart returns a part that is made from the window. Readers that need the same part
// share it.
func (r *reader) windowPart(key partKey, makePart func() part) part {
	d := r.feed.dispatcher
	if r.feed.catchUps.start(d.cfg.Source.State()) {
		d.remember(r.feed)
	}
	return r.feed.catchUps.part(nil, key, &d.catchUps, func() (p part) {
		d.cfg.Turns.Do(func() { p = makePart() })
		return p
	})
}

// replayPart makes a part from the window. The part has the next events.
func (r *reader) replayPart() part {
	s := r.feed.dispatcher.cfg.Source.State()
	changes, ok := s.Changes(r.after)
	if !ok || s.Position().Epoch != r.epoch {
		return part{lost: true}
	}
	p := part{end: batchCut{limit: r.feed.dispatcher.cfg.MessageBytes, upTo: r.after}, completeUpTo: s.Revision()}
	interest := &r.feed.interest
	skip := r.skip
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
		b = r.feed.dispatcher.cfg.Encoder.AppendEvent(b, e, interest.Projection)
		if !p.end.take(c.Revision, len(b)-before) {
			p.completeUpTo = 0
			break
		}
		if p.end.taken == 1 {
			p.arrived = arrived
		}
	}
	if p.end.taken > 0 {
		p.pieces = [][]byte{b[:p.end.bytes:p.end.bytes]}
	}
	return p
}

// advance moves the reader past the events of a message. The argument end is where the message
// ends. If the message has no events, advance moves the reader to the revision completeUpTo,
// because there are no events up to that revision.
func (r *reader) advance(end batchCut, completeUpTo object.Revision) readResult {
	r.after, r.skip = end.advance(r.after, r.skip)
	if end.taken > 0 {
		return readEvents
	}
	r.after = max(r.after, completeUpTo)
	return readUpToDate
}
