package dispatch

import (
	"context"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Begin says where a watcher begins.
type Begin struct {
	first step
	at    object.Position
}

// FromSnapshot begins with the state as it is when the first message is made.
func FromSnapshot() Begin { return Begin{first: beginReset} }

// After begins with what changed since the position, which must not lie ahead of
// the source's state if it is of the same epoch.
func After(p object.Position) Begin { return Begin{first: beginResume, at: p} }

// FromNow begins with what changes after the position of a recent state.
func FromNow(now object.Position) Begin { return Begin{first: beginNow, at: now} }

// Message is what a watcher is told at once. The pieces of events are shared
// between watchers and must not be modified.
type Message struct {
	Events [][]byte // encoded events; the message has all of them, one after the other
	Header object.Header
}

// Watcher is the serving end of one watch: a cursor on a feed. Next and Position
// are called by one goroutine at a time, Close once, after the last Next.
type Watcher struct {
	dispatcher *Dispatcher
	feed       *feed
	wake       chan struct{} // capacity 1: look again

	shard *shard
	slot  int // guarded by shard.mu: index among the parked, or -1

	// What follows belongs to the goroutine that calls Next.

	step     step
	epoch    object.Epoch
	cursor   object.Revision // everything up to here has been delivered
	sent     int             // events of the revision behind cursor that have been delivered in parts
	target   object.Revision // a replay is complete when the cursor is here
	snapshot *cacher.State   // while a reset is under way
	nextKey  object.Key      // of the snapshot
	version  uint64          // of the feed when it was last read
}

// step is what a watcher does next.
type step uint8

const (
	beginReset  step = iota // announce a reset
	beginResume             // announce a replay, or else a reset
	beginNow                // say where now is
	resetting               // send the snapshot
	replaying               // send the events up to target
	live                    // send events as they come
)

// Next waits for the next message. It returns ctx.Err() when ctx ends first and
// [ErrStopped] when the dispatcher does.
func (w *Watcher) Next(ctx context.Context) (Message, error) {
	for {
		if m, ok := w.poll(); ok {
			return m, nil
		}
		if !w.park() {
			continue
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return Message{}, ctx.Err()
		case <-w.dispatcher.stopped:
			return Message{}, ErrStopped
		}
	}
}

// Position returns the position at which a watch can be resumed without missing
// or repeating anything that was returned by Next.
func (w *Watcher) Position() object.Position {
	if w.step == resetting || w.step == beginReset {
		return object.Position{Epoch: w.epoch}
	}
	return object.Position{Epoch: w.epoch, Revision: w.cursor}
}

// Close ends the watch.
func (w *Watcher) Close() { w.dispatcher.leave(w) }

// park makes the next change of the feed wake the watcher, unless there was one
// since the feed was last read. The order matters: first among the parked, then
// the look at the version; so a change in between is seen by one of the two.
func (w *Watcher) park() bool {
	w.shard.park(w)
	return w.feed.version.Load() == w.version
}

// poll returns the next message if there is one. It does not block.
func (w *Watcher) poll() (Message, bool) {
	w.version = w.feed.version.Load()
	for {
		switch w.step {
		case beginReset:
			return w.startReset(), true
		case beginResume:
			if m, ok := w.startReplay(); ok {
				return m, true
			}
			w.step = beginReset
		case beginNow:
			w.step = live
			return w.message(object.Bookmark, nil), true
		case resetting:
			return w.snapshotPart(), true
		case replaying:
			switch pieces, result := w.events(w.target); result {
			case someEvents:
				return w.message(object.CatchUpPart, pieces), true
			case upToDate:
				w.step = live
				return w.message(object.Synced, nil), true
			case lostHistory:
				w.step = beginReset
			}
		case live:
			switch pieces, result := w.events(0); result {
			case someEvents:
				return w.message(object.Live, pieces), true
			case upToDate:
				return Message{}, false
			case lostHistory:
				w.step = beginReset
			}
		}
	}
}

func (w *Watcher) message(kind object.MessageKind, pieces [][]byte) Message {
	return Message{
		Events: pieces,
		Header: object.Header{Kind: kind, Position: w.Position(), Partial: w.sent > 0},
	}
}

// startReset takes a snapshot and announces it.
func (w *Watcher) startReset() Message {
	w.step = resetting
	w.snapshot = w.dispatcher.cfg.Source.State()
	w.epoch = w.snapshot.Position().Epoch
	w.nextKey, w.sent = "", 0
	m := w.message(object.CatchUpBegin, nil)
	m.Header.CatchUp = object.Reset
	return m
}

// snapshotPart returns the next part of the snapshot, or the end of it.
func (w *Watcher) snapshotPart() Message {
	var pieces [][]byte
	end := cut{limit: w.dispatcher.cfg.MessageBytes}
	encoder := w.dispatcher.cfg.Encoder
	interest := &w.feed.interest
	for o := range w.snapshot.Objects(interest.Scope, w.nextKey) {
		if !interest.picks(o) {
			continue
		}
		event := encoder.AddedEvent(o)
		if !end.take(object.Revision(len(pieces)), len(event)) {
			break
		}
		pieces = append(pieces, event)
		w.nextKey = o.Key + "\x00"
	}
	if len(pieces) > 0 {
		return w.message(object.CatchUpPart, pieces)
	}
	w.cursor = w.snapshot.Revision()
	w.snapshot = nil
	w.step = live
	return w.message(object.Synced, nil)
}

// startReplay announces a replay if the position is one that can be replayed.
func (w *Watcher) startReplay() (Message, bool) {
	s := w.dispatcher.cfg.Source.State()
	if w.epoch != s.Position().Epoch || w.cursor == 0 || w.cursor < s.Replayable() {
		return Message{}, false
	}
	w.step = replaying
	w.target = s.Revision()
	m := w.message(object.CatchUpBegin, nil)
	m.Header.CatchUp = object.Replay
	return m, true
}

// result says what a look for events found.
type result uint8

const (
	someEvents  result = iota // events; the cursor is behind them
	upToDate                  // none now; the cursor is at the present
	lostHistory               // the events after the cursor are gone
)

// events takes the events after the cursor, from the log of the feed where it
// reaches back far enough and has come to the target, else from the window.
func (w *Watcher) events(target object.Revision) ([][]byte, result) {
	// The order matters: through first. The view is then at least as new.
	through := object.Revision(w.dispatcher.through.Load())
	v := w.feed.view.Load()
	if v.after.Epoch == w.epoch && w.cursor >= v.after.Revision && through >= target {
		pieces, end := v.read(w.cursor, w.sent, w.dispatcher.cfg.MessageBytes)
		return pieces, w.moved(end, through)
	}
	return w.replay()
}

// replay takes the events after the cursor from the window.
func (w *Watcher) replay() ([][]byte, result) {
	s := w.dispatcher.cfg.Source.State()
	changes, ok := s.Changes(w.cursor)
	if !ok || s.Position().Epoch != w.epoch {
		return nil, lostHistory
	}
	var b []byte
	skip := w.sent
	end := cut{limit: w.dispatcher.cfg.MessageBytes, upto: w.cursor}
	complete := true
	for c := range changes {
		t, o, ok := w.feed.interest.see(c)
		if !ok {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		before := len(b)
		b = w.dispatcher.cfg.Encoder.AppendEvent(b, t, o, c.Revision)
		if !end.take(c.Revision, len(b)-before) {
			complete = false
			break
		}
	}
	through := s.Revision()
	if !complete {
		through = 0
	}
	if end.taken == 0 {
		return nil, w.moved(end, through)
	}
	return [][]byte{b[:end.bytes:end.bytes]}, w.moved(end, through)
}

// moved puts the cursor behind the events that end describes. Where they were the
// last ones, it goes on to the revision through which there are no others.
func (w *Watcher) moved(end cut, through object.Revision) result {
	if end.partial {
		w.sent += end.taken
		return someEvents
	}
	w.sent = 0
	w.cursor = end.upto
	if end.taken > 0 {
		return someEvents
	}
	w.cursor = max(w.cursor, through)
	return upToDate
}
