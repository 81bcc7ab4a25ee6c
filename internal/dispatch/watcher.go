package dispatch

import (
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
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

// payload has the events of a message.
type payload struct {
	pieces  [][]byte
	count   int
	arrived time.Time // when the first of the changes came from the store
	more    bool      // more events wait for the watcher
}

// Watcher is the serving end of one watch: a cursor on a feed. Its owner is the goroutine
// that calls Serve, or the worker while Serve waits. Only the goroutine that calls Serve may
// call Position and Close, and only while Serve does not run.
type Watcher struct {
	// Only the owner uses the fields below. The fields from step to schedule share a cache
	// line, because the worker reads them for each message. With very many watchers, each
	// line is a cache miss.

	step       step
	latest     bool   // see [Options]
	everyEvent bool   // see [Options]
	timed      bool   // see scheduleTimer.needsEveryMessage
	place      uint32 // see [Options]
	epoch      object.Epoch
	cursor     object.Revision // every event up to this revision has been delivered; 0: the watcher has to begin with a snapshot
	sent       int             // number of events after the cursor that partial messages have delivered
	mergeTo    object.Revision // a merge up to this revision is being sent in partial messages; 0: none
	schedule   *scheduleTimer  // nil: no bookmark is ever due and no batch is delayed

	version uint64          // feed.version when the owner last read the feed
	needed  object.Revision // the lowest revision to which the next RESET or DELTA may lead
	exact   object.Revision // the revision of the next snapshot; 0: any
	catchUp *catchUp        // nil: none is under way

	// These four never change.

	dispatcher *Dispatcher
	feed       *feed
	group      *group
	sink       Sink

	// The handler, the worker and other goroutines share the fields below.

	handedBack chan struct{}  // made by Serve, with capacity 1; receives when the worker hands the watcher back
	task       sendqueue.Task // calls run
	failure    error          // the worker sets it before it hands the watcher back
	groupIndex int32          // index in the members of the group, or -1; only the worker uses it
	stopping   atomic.Bool    // Serve has to return
	workerOwns atomic.Bool    // the worker owns the watcher; otherwise the goroutine of Serve owns it
	inGroup    atomic.Bool    // the watcher is in its group; the worker reads groupIndex instead
}

// step is what a watcher does next.
type step uint8

const (
	stepSnapshot step = iota // announce a snapshot
	stepResume               // announce the catch-up from a position to the present
	stepNow                  // send the present position
	stepBehind               // announce a catch-up: the events after the cursor are gone
	stepCatchUp              // send the catch-up
	stepLive                 // send events as they come
)

var firstStep = [...]step{BeginFromSnapshot: stepSnapshot, BeginFromPosition: stepResume, BeginFromNow: stepNow}

// begin makes the watcher one of a group.
func (w *Watcher) begin(g *group, b Begin, o *Options) {
	w.dispatcher, w.feed, w.group, w.groupIndex = g.dispatcher, g.feed, g, -1
	w.latest, w.everyEvent = o.Latest, o.EveryEvent
	w.step = firstStep[b.Kind]
	w.epoch, w.cursor = b.Position.Epoch, b.Position.Revision
	w.needed, w.exact = b.Needed, b.Exact
	if b.Kind != BeginFromNow {
		w.needed = max(w.needed, w.changedAt())
	}
}

// next returns the next message, or false if there is none now. It does not wait for events.
func (w *Watcher) next(now time.Time) (Message, bool, error) {
	if w.step == stepLive && w.schedule.holds(now) {
		return Message{}, false, nil
	}
	m, ok, err := w.nextMessage()
	if !ok && err == nil {
		m, ok = w.bookmark(now)
	}
	if ok {
		w.recordSent(&m.Header, now)
	}
	return m, ok, err
}

// recordSent records in the schedule that a message was sent, if the schedule needs to know.
func (w *Watcher) recordSent(h *object.Header, now time.Time) {
	if w.timed || h.Kind == object.Bookmark {
		w.schedule.recordSent(h, now)
	}
}

// Position returns the position from which a client can resume without missing an event. Its
// revision is 0 if the client has to begin with a snapshot. A client that resumes may receive
// events again if the watch has ended within a catch-up or between partial messages.
//
// Position first moves the cursor past changes that do not concern the watcher. So a quiet
// watch can be resumed however old its last message is.
func (w *Watcher) Position() object.Position {
	if w.step == stepLive && w.sent == 0 {
		cursor := w.cursor
		if _, result := w.events(); result != readUpToDate {
			w.cursor, w.sent, w.mergeTo = cursor, 0, 0
		}
	}
	at := w.at()
	if at.Epoch == "" { // the watch ends before its snapshot has begun
		at.Epoch = w.dispatcher.cfg.Source.State().Position().Epoch
	}
	return at
}

// at returns the position of the cursor.
func (w *Watcher) at() object.Position {
	return object.Position{Epoch: w.epoch, Revision: w.cursor}
}

// Close removes the watcher from its dispatcher.
func (w *Watcher) Close() {
	w.schedule.stop()
	w.abandonCatchUp()
	w.dispatcher.unregister(w)
}

// Backlog describes the events that wait for a watcher.
type Backlog struct {
	Events int             // number of waiting events; negative: unknown
	Since  object.Revision // all waiting events have higher revisions; meaningless if Events is 0
}

// Backlog returns the events that wait for the watcher after a position. The watcher must
// have sent a message with this position. The number of events is unknown if the log does not
// reach back to the position. Any goroutine may call Backlog.
func (w *Watcher) Backlog(at object.Position) Backlog {
	v := w.feed.view.Load()
	switch {
	case v.covers(at):
		n, first := v.count(at.Revision)
		return Backlog{Events: n, Since: first - 1}
	case w.inGroup.Load():
		return Backlog{} // the watcher found nothing to send before it joined
	}
	return Backlog{Events: -1, Since: at.Revision}
}

// Unapplied describes the events after a position that the client has applied. It is like
// Backlog, but the watcher may have sent later messages.
func (w *Watcher) Unapplied(applied object.Position) Backlog {
	if v := w.feed.view.Load(); v.covers(applied) {
		n, first := v.count(applied.Revision)
		return Backlog{Events: n, Since: first - 1}
	}
	return Backlog{Events: -1, Since: applied.Revision}
}

// completeAfter returns the position up to which the client has every event, if it has every event
// up to the argument. Any goroutine may call it.
func (w *Watcher) completeAfter(at object.Position) object.Position {
	// The order matters: the view has every event up to the position that was loaded before.
	p := w.dispatcher.dispatchedUpTo.Load()
	v := w.feed.view.Load()
	if p == nil || p.Epoch != at.Epoch || !v.covers(at) {
		return at
	}
	upTo := p.Revision
	if first, ok := v.next(at.Revision); ok {
		upTo = min(upTo, first-1)
	}
	return object.Position{Epoch: at.Epoch, Revision: max(at.Revision, upTo)}
}

// Quiet reports whether nothing concerns the watcher's interest after the position from, up to
// and including the revision to. It returns false if that is unknown, because the dispatcher
// has not reached the revision, or because the log does not reach back to the position. Any
// goroutine may call Quiet.
func (w *Watcher) Quiet(from object.Position, to object.Revision) bool {
	// The order matters: the view has every event up to the position that was loaded before.
	if p := w.dispatcher.dispatchedUpTo.Load(); p == nil || p.Epoch != from.Epoch || p.Revision < to {
		return false
	}
	v := w.feed.view.Load()
	if !v.covers(from) {
		return false
	}
	first, ok := v.next(from.Revision)
	return !ok || first > to
}

// Shows reports whether the log of the watcher's feed has an event of the revision. If so, a
// client that has received a position at or above the revision has also received the event,
// or a newer state. Any goroutine may call Shows.
func (w *Watcher) Shows(revision object.Revision) bool {
	v := w.feed.view.Load()
	n, first := v.count(revision - 1)
	return n > 0 && first == revision
}

// nextMessage returns the next message. It leaves out the bookmarks of the schedule.
func (w *Watcher) nextMessage() (Message, bool, error) {
	for {
		switch w.step {
		case stepSnapshot, stepResume, stepBehind:
			m, err := w.startCatchUp()
			return m, err == nil, err
		case stepNow:
			w.step = stepLive
			return w.message(object.Bookmark, payload{}), true, nil
		case stepCatchUp:
			switch p, result := w.catchUpPart(); result {
			case readEvents:
				return w.message(object.CatchUpPart, p), true, nil
			case readUpToDate:
				return w.synced(), true, nil
			case readLost:
				w.step = stepBehind
			}
		case stepLive:
			switch p, result := w.events(); result {
			case readEvents:
				return w.message(object.Live, p), true, nil
			case readUpToDate:
				return Message{}, false, nil
			case readLost:
				w.step = stepBehind
			}
		}
	}
}

func (w *Watcher) message(kind object.MessageKind, p payload) Message {
	m := Message{
		Events: p.pieces,
		Count:  p.count,
		Header: object.Header{Kind: kind, Position: w.at(), Partial: w.sent > 0},
	}
	switch kind {
	case object.Live:
		m.Arrived = p.arrived
		m.Header.Age = w.dispatcher.liveAge(time.Now(), p.arrived, p.more)
	case object.Bookmark:
		m.Header.Age = w.dispatcher.statedAge(time.Now())
	}
	return m
}

// bookmark returns a bookmark if one is due. The bookmark promises that everything up to the
// cursor has been delivered.
//
// While the source has no contact with the store, the watcher sends no periodic bookmarks.
// The client should notice the silence, take the server for dead and try another server. The
// watcher sends the last bookmark even then.
func (w *Watcher) bookmark(now time.Time) (Message, bool) {
	switch w.schedule.due(now) {
	case NotDue:
		return Message{}, false
	case PeriodicBookmarkDue:
		source := w.dispatcher.cfg.Source
		if !source.Following() {
			w.schedule.RetrySoon(now)
			return Message{}, false
		}
		source.Advance() // so that the next bookmark has a newer position
	}
	return w.message(object.Bookmark, payload{}), true
}

// readResult is the result of reading the events after the cursor.
type readResult uint8

const (
	readEvents   readResult = iota // there are events, and Watcher.cursor or Watcher.sent has moved past them
	readUpToDate                   // there are no events, and the cursor is at the present
	readLost                       // the events are gone
)

// events returns the events after the cursor and moves the cursor past them. It reads the
// window if the log begins after the cursor, if the log ends before the end of a REPLAY, or if
// events have to be merged. Otherwise it reads the log.
func (w *Watcher) events() (payload, readResult) {
	var to object.Revision
	if w.catchUp != nil {
		to = w.catchUp.to
	}
	if w.step == stepCatchUp && w.sent == 0 && w.cursor >= to {
		return payload{}, readUpToDate
	}
	// The order matters: dispatchedUpTo is loaded before the view, so the view has every
	// event up to that revision.
	dispatchedUpTo := w.dispatchedUpTo()
	v := w.feed.view.Load()
	logged := w.inLog(v) && dispatchedUpTo >= to
	switch {
	case w.mergeTo > 0, w.latest && w.sent == 0 && !(logged && v.distinct(w.cursor)):
		return w.merged()
	case logged:
		pieces, end, first := v.read(w.cursor, w.sent, w.dispatcher.cfg.MessageBytes, allRevisions)
		if w.latest && end.partial {
			// The message ends inside a revision. The next messages send the rest of this
			// revision as a merge that ends with the revision. Later events are merged
			// afterwards.
			w.mergeTo = end.current
		}
		return payload{pieces, end.taken, w.dispatcher.created.Add(first.arrived), end.hasMore}, w.advance(end, dispatchedUpTo)
	}
	p := w.windowPart(partKey{kind: object.Replay, start: w.nextInWindow()}, w.replayPart)
	if p.lost {
		return payload{}, readLost
	}
	return p.payload(), w.advance(p.end, p.completeUpTo)
}

// inLog reports whether the view has all events after the cursor.
func (w *Watcher) inLog(v *view) bool { return v.covers(w.at()) }

// dispatchedUpTo returns the revision of Dispatcher.dispatchedUpTo, or 0 if that position
// belongs to another epoch than the watcher.
func (w *Watcher) dispatchedUpTo() object.Revision {
	if p := w.dispatcher.dispatchedUpTo.Load(); p != nil && p.Epoch == w.epoch {
		return p.Revision
	}
	return 0
}

// nextInWindow returns the start of the next part that the watcher reads from the window.
func (w *Watcher) nextInWindow() partStart {
	return partStart{ChangeID: cacher.ChangeID{At: w.cursor}, skip: w.sent, epoch: w.epoch}
}

// windowPart returns a part that is made from the window. Watchers that need the same part
// share it.
func (w *Watcher) windowPart(key partKey, makePart func() part) part {
	d := w.dispatcher
	if w.feed.catchUps.start(d.cfg.Source.State()) {
		d.remember(w.feed)
	}
	return w.feed.catchUps.part(nil, key, &d.catchUps, func() (p part) {
		d.cfg.Turns.Do(func() { p = makePart() })
		return p
	})
}

// replayPart makes a part from the window. The part has the events after the cursor.
func (w *Watcher) replayPart() part {
	s := w.dispatcher.cfg.Source.State()
	changes, ok := s.Changes(w.cursor)
	if !ok || s.Position().Epoch != w.epoch {
		return part{lost: true}
	}
	p := part{end: batchCut{limit: w.dispatcher.cfg.MessageBytes, upTo: w.cursor}, completeUpTo: s.Revision()}
	interest := &w.feed.interest
	skip := w.sent
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
		b = w.dispatcher.cfg.Encoder.AppendEvent(b, e, interest.Projection)
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

// advance moves the cursor past the events of a message. The argument end is where the
// message ends. If the message has no events, advance moves the cursor to the revision
// completeUpTo, because there are no events up to that revision.
func (w *Watcher) advance(end batchCut, completeUpTo object.Revision) readResult {
	w.cursor, w.sent = end.advance(w.cursor, w.sent)
	if end.taken > 0 {
		return readEvents
	}
	w.cursor = max(w.cursor, completeUpTo)
	return readUpToDate
}
