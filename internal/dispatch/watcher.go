package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Message is what a watcher is told at once. The pieces of events are shared
// between watchers and must not be modified.
type Message struct {
	Events [][]byte // encoded events; the message has all of them, one after the other
	Count  int      // the number of events
	Header object.Header

	// Arrived is when the first of the changes that the events tell came from the
	// store. Zero where that is not known, and in messages that are not live: what
	// waited for a client that was not there says nothing of how fast we are.
	Arrived time.Time
}

// batch is what a message has of events.
type batch struct {
	pieces  [][]byte
	count   int
	arrived time.Time // see Message.Arrived
}

// Watcher is the serving end of one watch: a cursor on a feed. Next, Try, Poll, Settle
// and Position are called by one goroutine at a time, Close once, after the last of them.
type Watcher struct {
	// What follows belongs to the goroutine that calls Next. What is looked at for each
	// message is a line of a processor's cache: there are more watchers than fit there.

	step       step
	more       bool // the log had more than the message that Poll has returned
	latest     bool // see [Options]
	everyEvent bool // the same
	timed      bool // the clock is told of messages
	epoch      object.Epoch
	cursor     object.Revision // everything up to here has been delivered; 0: nothing that could be continued
	sent       int             // events behind the cursor that have been delivered in parts
	mergeTo    object.Revision // the parts are of events that were merged up to here; 0: of one revision
	clock      *clock          // nil: there is nothing to be said but events

	version uint64          // of the feed when it was last read
	needed  object.Revision // a snapshot must not be older
	exact   object.Revision // a snapshot must be of this revision; 0: of none in particular
	catchUp *catchUp        // nil: it is on none

	// What follows belongs to everybody.

	dispatcher *Dispatcher
	feed       *feed
	follower   Follower      // nil: Next is called
	wake       func()        // look again; called by anybody at any time
	woken      chan struct{} // capacity 1: wake was called; nil where that is what others wait for

	shard  *shard  // where it waits, or
	cohort *cohort // if this is not nil, here
	slot   int     // guarded by shard.mu, or the cohort's worker's: index among those who wait, or -1

	waits atomic.Bool // it is in the cohort; for those who are not its worker

	_ [2]uint64 // what the runtime allocates of this size begins a line
}

// step is what a watcher does next.
type step uint8

const (
	beginReset  step = iota // announce a snapshot
	beginResume             // announce the way from a position to the present
	beginNow                // say where now is
	behind                  // announce a way to the present: the events after the cursor are gone
	catchingUp              // be on that way
	live                    // send events as they come
)

// Next waits for the next message. It returns ctx.Err() when ctx ends first,
// [ErrStopped] when the dispatcher does, and [*LostError] or [*EpochError] where a
// watcher who wants every event cannot have it. It is not for those who have a
// [Follower].
func (w *Watcher) Next(ctx context.Context) (Message, error) {
	for {
		m, ok, err := w.Try()
		if ok || err != nil {
			return m, err
		}
		select {
		case <-w.woken:
		case <-ctx.Done():
			return Message{}, ctx.Err()
		case <-w.dispatcher.stopped:
			return Message{}, ErrStopped
		}
	}
}

// Try returns the next message, or false if there is nothing to say now: the watcher is
// woken when that may have changed; the task of a follower then has to be made ready,
// which looks itself. It does not wait for anything to happen, but for what it has to do
// itself. Errors are those of Next.
func (w *Watcher) Try() (Message, bool, error) {
	for {
		now := time.Now()
		if w.step == live && w.clock.hold(now, w.wake) {
			return Message{}, false, nil
		}
		m, ok, err := w.poll()
		if !ok && err == nil {
			m, ok = w.bookmark(now)
		}
		if ok || err != nil {
			w.note(m.Header.Kind, now)
			return m, ok, err
		}
		if w.cohort != nil {
			return Message{}, false, nil
		}
		if w.park() {
			w.clock.alarm(now, w.wake)
			return Message{}, false, nil
		}
	}
}

// note takes down that a message is on its way.
func (w *Watcher) note(kind object.MessageKind, now time.Time) {
	if w.timed {
		w.clock.note(kind, now)
	}
}

// Stopped returns a channel that is closed when nothing comes from the dispatcher any
// more.
func (w *Watcher) Stopped() <-chan struct{} { return w.dispatcher.stopped }

// Position returns the position at which a watch can be resumed without missing
// or repeating anything that was returned by Next. Its revision is 0 where that is
// from nothing. While nothing concerns the watcher it is that of the present, so
// that a quiet watch can be resumed however long ago its last message is.
func (w *Watcher) Position() object.Position {
	if w.step == live && w.sent == 0 {
		cursor := w.cursor
		if _, result := w.events(); result != upToDate {
			w.cursor, w.sent, w.mergeTo = cursor, 0, 0
		}
	}
	return w.at()
}

// at returns where the watcher is.
func (w *Watcher) at() object.Position {
	return object.Position{Epoch: w.epoch, Revision: w.cursor}
}

// Close ends the watch.
func (w *Watcher) Close() {
	w.clock.stop()
	w.abandon()
	w.dispatcher.leave(w)
}

// park makes the next change of the feed wake the watcher, unless there was one
// since the feed was last read. The order matters: first among the parked, then
// the look at the version; so a change in between is seen by one of the two.
func (w *Watcher) park() bool {
	if w.cohort != nil {
		w.cohort.join(w)
	} else {
		w.shard.park(w)
	}
	return w.feed.version.Load() == w.version
}

// poll returns the next message if there is one. It does not block.
func (w *Watcher) poll() (Message, bool, error) {
	w.version = w.feed.version.Load()
	for {
		switch w.step {
		case beginReset, beginResume, behind:
			m, err := w.startCatchUp()
			return m, err == nil, err
		case beginNow:
			w.step = live
			return w.message(object.Bookmark, batch{}), true, nil
		case catchingUp:
			if w.catchUp.kind != object.Replay {
				if m, ok := w.catchUpPart(); ok {
					return m, true, nil
				}
				w.step = behind
				continue
			}
			switch b, result := w.events(); result {
			case someEvents:
				return w.message(object.CatchUpPart, b), true, nil
			case upToDate:
				return w.synced(), true, nil
			case lostHistory:
				w.step = behind
			}
		case live:
			switch b, result := w.events(); result {
			case someEvents:
				return w.message(object.Live, b), true, nil
			case upToDate:
				return Message{}, false, nil
			case lostHistory:
				w.step = behind
			}
		}
	}
}

func (w *Watcher) message(kind object.MessageKind, b batch) Message {
	m := Message{
		Events: b.pieces,
		Count:  b.count,
		Header: object.Header{Kind: kind, Position: w.at(), Partial: w.sent > 0},
	}
	if kind == object.Live {
		m.Arrived = b.arrived
	}
	return m
}

// bookmark says where the watcher is, if it is time to: everything up to there
// that concerns it has been delivered. While the source does not hear of the
// store, silence is the honest thing to say.
func (w *Watcher) bookmark(now time.Time) (Message, bool) {
	switch w.clock.due(now) {
	case notDue:
		return Message{}, false
	case silence:
		source := w.dispatcher.cfg.Source
		if !source.Following() {
			w.clock.spoke = now
			return Message{}, false
		}
		source.Advance() // the next one shall be newer
	}
	return w.message(object.Bookmark, batch{}), true
}

// result says what a look for events found.
type result uint8

const (
	someEvents  result = iota // events; the cursor is behind them
	upToDate                  // none now; the cursor is at the present
	lostHistory               // the events after the cursor are gone
)

// events takes the events after the cursor. Who wants every event does not get them
// where they are the differences that a relist found: whether they are is looked up
// afterwards, so that the answer is not older than they are.
func (w *Watcher) events() (batch, result) {
	cursor, sent := w.cursor, w.sent
	b, result := w.nextEvents()
	if w.everyEvent && cursor < w.dispatcher.cfg.Source.State().Relisted() {
		w.cursor, w.sent = cursor, sent
		return batch{}, lostHistory
	}
	return b, result
}

// nextEvents takes the events after the cursor, from the log of the feed where it
// reaches back far enough and has come to where a replay leads, else from the
// window.
func (w *Watcher) nextEvents() (batch, result) {
	var to object.Revision
	if w.catchUp != nil {
		to = w.catchUp.to
	}
	if w.step == catchingUp && w.sent == 0 && w.cursor >= to {
		return batch{}, upToDate
	}
	// The order matters: through first. The view is then at least as new.
	through := w.through()
	v := w.feed.view.Load()
	logged := w.in(v) && through >= to
	switch {
	case w.mergeTo > 0, w.latest && w.sent == 0 && !(logged && v.distinct(w.cursor)):
		return w.merged()
	case logged:
		pieces, end, first := v.read(w.cursor, w.sent, w.dispatcher.cfg.MessageBytes)
		if w.latest && end.partial {
			// What happens before the rest of the revision is sent is merged with
			// what waits behind it, not with what was sent.
			w.mergeTo = end.current
		}
		return batch{pieces, end.taken, w.dispatcher.began.Add(first.arrived)}, w.moved(end, through)
	}
	p := w.shared(partKey{kind: object.Replay, mark: w.here()}, w.replayPart)
	if p.lost {
		return batch{}, lostHistory
	}
	return p.batch(), w.moved(p.end, p.through)
}

// in reports whether the view has all events after the cursor.
func (w *Watcher) in(v *view) bool { return v.after.Epoch == w.epoch && w.cursor >= v.after.Revision }

// through returns the revision of the watcher's epoch up to which everything is in
// the feeds, or 0. Revisions of another epoch say nothing.
func (w *Watcher) through() object.Revision {
	if p := w.dispatcher.through.Load(); p != nil && p.Epoch == w.epoch {
		return p.Revision
	}
	return 0
}

// here is the mark of what comes next in the window.
func (w *Watcher) here() mark {
	return mark{ChangeID: cacher.ChangeID{At: w.cursor}, skip: w.sent, epoch: w.epoch}
}

// shared returns a part that is made from the window. Watchers who are at the same
// place share it.
func (w *Watcher) shared(key partKey, makePart func() part) part {
	d := w.dispatcher
	if w.feed.memo.open(d.cfg.Source.State()) {
		d.keep(w.feed)
	}
	return w.feed.memo.part(nil, key, &d.memos, makePart)
}

// replayPart returns events after the cursor from the window.
func (w *Watcher) replayPart() part {
	s := w.dispatcher.cfg.Source.State()
	changes, ok := s.Changes(w.cursor)
	if !ok || s.Position().Epoch != w.epoch {
		return part{lost: true}
	}
	p := part{end: cut{limit: w.dispatcher.cfg.MessageBytes, upto: w.cursor}, through: s.Revision()}
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

// moved puts the cursor behind the events that end describes. Where they were the
// last ones, it goes on to the revision through which there are no others.
func (w *Watcher) moved(end cut, through object.Revision) result {
	w.cursor, w.sent = end.after(w.cursor, w.sent)
	if end.taken > 0 {
		return someEvents
	}
	w.cursor = max(w.cursor, through)
	return upToDate
}
