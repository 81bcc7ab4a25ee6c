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
	Events [][]byte // encoded events; the message has all of them, one after another
	Count  int      // the number of events
	Header object.Header

	// Arrived is the time when the first of the changes came from the store. It is zero if
	// unknown, and in messages that are not live: events that waited for an absent client
	// say nothing about the latency of the server.
	Arrived time.Time
}

// payload is the events of a message.
type payload struct {
	pieces  [][]byte
	count   int
	arrived time.Time // see Message.Arrived
}

// Watcher is the serving end of one watch: a cursor on a feed. Its owner is the goroutine
// that calls Serve, or the worker while Serve waits. Only the goroutine that calls Serve may
// call Position and Close, and not while Serve runs.
type Watcher struct {
	// The owner alone uses the fields below. Those that it reads for each message are in one
	// cache line: with very many watchers, each line is a cache miss.

	step       step
	latest     bool // see [Options]
	everyEvent bool // see [Options]
	timed      bool // the clock has to know of each message
	epoch      object.Epoch
	cursor     object.Revision // everything up to here has been delivered; 0: there is nothing to continue
	sent       int             // events after the cursor that partial messages have already delivered
	mergeTo    object.Revision // a merge up to this revision is being sent in partial messages; 0: none
	clock      *clock          // nil: no bookmarks are due and no batch is delayed

	version uint64          // of the feed when the owner last read it
	needed  object.Revision // the least revision of the next snapshot
	exact   object.Revision // the revision of the next snapshot; 0: any
	catchUp *catchUp        // nil: none is under way

	// These four never change.

	dispatcher *Dispatcher
	feed       *feed
	group      *group
	sink       Sink

	// The handler, the worker and other goroutines share the fields below, as their comments
	// say.

	handedBack chan struct{}  // capacity 1: the worker has handed the watcher back; set by Serve
	task       sendqueue.Task // runs run
	failure    error          // set by the worker before it hands the watcher back
	slot       int32          // index in the group, or -1; belongs to the worker
	stopping   atomic.Bool    // Serve has to return
	workerOwns atomic.Bool    // the worker owns the watcher, otherwise the goroutine of Serve
	waiting    atomic.Bool    // the watcher is in its group; for other goroutines than the worker
}

// step is what a watcher does next.
type step uint8

const (
	beginReset  step = iota // announce a snapshot
	beginResume             // announce the catch-up from a position to the present
	beginNow                // send the present position
	behind                  // announce a catch-up: the events after the cursor are gone
	catchingUp              // send the catch-up
	live                    // send events as they come
)

var firstStep = [...]step{BeginSnapshot: beginReset, BeginResume: beginResume, BeginNow: beginNow}

// next returns the next message, or false if there is none now. It does not wait for events.
func (w *Watcher) next(now time.Time) (Message, bool, error) {
	if w.step == live && w.clock.holds(now) {
		return Message{}, false, nil
	}
	m, ok, err := w.nextMessage()
	if !ok && err == nil {
		m, ok = w.bookmark(now)
	}
	if ok {
		w.note(m.Header.Kind, now)
	}
	return m, ok, err
}

// note records a message in the schedule of the watcher.
func (w *Watcher) note(kind object.MessageKind, now time.Time) {
	if w.timed || kind == object.Bookmark {
		w.clock.sent(kind, now)
	}
}

// Position returns the position at which a client can resume without missing or repeating
// anything that was sent. Its revision is 0 if there is nothing to resume. Position first
// moves the cursor past changes that do not concern the watcher, so a quiet watch can be
// resumed however old its last message is.
func (w *Watcher) Position() object.Position {
	if w.step == live && w.sent == 0 {
		cursor := w.cursor
		if _, result := w.events(); result != upToDate {
			w.cursor, w.sent, w.mergeTo = cursor, 0, 0
		}
	}
	return w.at()
}

// at returns the position of the cursor.
func (w *Watcher) at() object.Position {
	return object.Position{Epoch: w.epoch, Revision: w.cursor}
}

// Close removes the watcher from its dispatcher.
func (w *Watcher) Close() {
	w.clock.stop()
	w.abandonCatchUp()
	w.dispatcher.leave(w)
}

// Backlog describes the events that wait for a watcher.
type Backlog struct {
	Events int             // their number; negative: unknown
	After  object.Revision // the first of them has a higher revision; meaningless if Events is 0
}

// Backlog returns what waits for a watcher that is at the position of one of its messages.
// Any goroutine may call it. The number is unknown if the log does not reach back to the
// position.
func (w *Watcher) Backlog(at object.Position) Backlog {
	v := w.feed.view.Load()
	switch {
	case v.after.Epoch == at.Epoch && at.Revision >= v.after.Revision:
		n, first := v.count(at.Revision)
		return Backlog{Events: n, After: first - 1}
	case w.waiting.Load():
		return Backlog{} // it found nothing to send
	}
	return Backlog{Events: -1, After: at.Revision}
}

// Shows reports whether the log of the watcher's feed has an event of the revision. If so, a
// message whose position is at or after the revision has that event. Any goroutine may call
// it.
func (w *Watcher) Shows(revision object.Revision) bool {
	v := w.feed.view.Load()
	n, first := v.count(revision - 1)
	return n > 0 && first == revision
}

// nextMessage returns the next message, apart from bookmarks that the schedule demands.
func (w *Watcher) nextMessage() (Message, bool, error) {
	for {
		switch w.step {
		case beginReset, beginResume, behind:
			m, err := w.startCatchUp()
			return m, err == nil, err
		case beginNow:
			w.step = live
			return w.message(object.Bookmark, payload{}), true, nil
		case catchingUp:
			if w.catchUp.kind != object.Replay {
				if m, ok := w.catchUpMessage(); ok {
					return m, true, nil
				}
				w.step = behind
				continue
			}
			switch p, result := w.events(); result {
			case someEvents:
				return w.message(object.CatchUpPart, p), true, nil
			case upToDate:
				return w.synced(), true, nil
			case lostHistory:
				w.step = behind
			}
		case live:
			switch p, result := w.events(); result {
			case someEvents:
				return w.message(object.Live, p), true, nil
			case upToDate:
				return Message{}, false, nil
			case lostHistory:
				w.step = behind
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
	if kind == object.Live {
		m.Arrived = p.arrived
	}
	return m
}

// bookmark returns a bookmark if one is due. It promises that everything up to the cursor
// has been delivered. While the source has no contact with the store, the watcher sends no
// bookmark for silence, because clients take silence for a dead server. The last bookmark is
// always sent.
func (w *Watcher) bookmark(now time.Time) (Message, bool) {
	switch w.clock.due(now) {
	case NotDue:
		return Message{}, false
	case Silence:
		source := w.dispatcher.cfg.Source
		if !source.Following() {
			w.clock.Postpone(now)
			return Message{}, false
		}
		source.Advance() // so that the next bookmark is newer
	}
	return w.message(object.Bookmark, payload{}), true
}

// result is the outcome of a look for events.
type result uint8

const (
	someEvents  result = iota // events; cursor or sent has moved past them
	upToDate                  // none now; the cursor is at the present
	lostHistory               // the events after the cursor are gone
)

// events takes the events after the cursor. With EveryEvent, the differences found by a
// relist count as lost history. The check comes after reading the events, so it cannot miss
// a relist whose differences were read.
func (w *Watcher) events() (payload, result) {
	cursor, sent := w.cursor, w.sent
	p, result := w.fromLogOrWindow()
	if w.everyEvent && cursor < w.dispatcher.cfg.Source.State().Relisted() {
		w.cursor, w.sent = cursor, sent
		return payload{}, lostHistory
	}
	return p, result
}

// fromLogOrWindow takes the events after the cursor: from the log, if that reaches back to
// the cursor and ahead to the end of the replay, otherwise from the window.
func (w *Watcher) fromLogOrWindow() (payload, result) {
	var to object.Revision
	if w.catchUp != nil {
		to = w.catchUp.to
	}
	if w.step == catchingUp && w.sent == 0 && w.cursor >= to {
		return payload{}, upToDate
	}
	// The order matters: load through first. The view is then at least as new.
	through := w.through()
	v := w.feed.view.Load()
	logged := w.inLog(v) && through >= to
	switch {
	case w.mergeTo > 0, w.latest && w.sent == 0 && !(logged && v.distinct(w.cursor)):
		return w.merged()
	case logged:
		pieces, end, first := v.read(w.cursor, w.sent, w.dispatcher.cfg.MessageBytes)
		if w.latest && end.partial {
			// Finish this revision first: the rest of it is sent as a merge up to here.
			// Later events are merged afterwards.
			w.mergeTo = end.current
		}
		return payload{pieces, end.taken, w.dispatcher.created.Add(first.arrived)}, w.advance(end, through)
	}
	p := w.shared(partKey{kind: object.Replay, place: w.here()}, w.replayPart)
	if p.lost {
		return payload{}, lostHistory
	}
	return p.payload(), w.advance(p.end, p.through)
}

// inLog reports whether the view has all events after the cursor.
func (w *Watcher) inLog(v *view) bool {
	return v.after.Epoch == w.epoch && w.cursor >= v.after.Revision
}

// through returns the revision of the watcher's epoch up to which all events are in the
// feeds, or 0 if the dispatcher is in another epoch.
func (w *Watcher) through() object.Revision {
	if p := w.dispatcher.through.Load(); p != nil && p.Epoch == w.epoch {
		return p.Revision
	}
	return 0
}

// here returns the place in the window where the next event is.
func (w *Watcher) here() place {
	return place{ChangeID: cacher.ChangeID{At: w.cursor}, skip: w.sent, epoch: w.epoch}
}

// shared returns a part that is made from the window. Watchers at the same place share it.
func (w *Watcher) shared(key partKey, makePart func() part) part {
	d := w.dispatcher
	if w.feed.catchUps.open(d.cfg.Source.State()) {
		d.remember(w.feed)
	}
	return w.feed.catchUps.part(nil, key, &d.catchUps, makePart)
}

// replayPart returns events after the cursor from the window.
func (w *Watcher) replayPart() part {
	s := w.dispatcher.cfg.Source.State()
	changes, ok := s.Changes(w.cursor)
	if !ok || s.Position().Epoch != w.epoch {
		return part{lost: true}
	}
	p := part{end: batchCut{limit: w.dispatcher.cfg.MessageBytes, upto: w.cursor}, through: s.Revision()}
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
			p.through = 0
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

// advance moves the cursor past the events that end describes. If there are none, it moves
// the cursor to through.
func (w *Watcher) advance(end batchCut, through object.Revision) result {
	w.cursor, w.sent = end.after(w.cursor, w.sent)
	if end.taken > 0 {
		return someEvents
	}
	w.cursor = max(w.cursor, through)
	return upToDate
}
