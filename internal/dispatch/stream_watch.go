package dispatch

import (
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// StreamWatch is one watch of a stream. The caller sets ID, and embeds the StreamWatch in its own
// record of the watch, so a watch has one allocation. It must not be copied or reused after Start.
type StreamWatch struct {
	ID    uint64 // chosen by the client
	Index uint32 // for the caller: where its record of the watch is

	order   int32                  // index in cursor.watches; only the worker uses it
	due     int32                  // place in streamClock.due; 0: none; only the worker uses it
	joining bool                   // it has joined a live cursor, and no message was made for it yet; only the worker uses it
	life    atomic.Int32           // see below
	cursor  atomic.Pointer[cursor] // stored by the worker, while it holds Stream.mu; nil: not started

	// The number and the size of the messages before the watch shared its cursor, without those
	// that the cursor had sent before. Stream.mu guards both.

	messages, bytes int64
}

// These are the values of StreamWatch.life, in order.
const (
	watchGoesOn int32 = iota
	watchEnding       // the watch will end
	watchEnded        // the worker has ended the watch
)

// beginEnding reports whether the caller is the first one that ends the watch.
func (w *StreamWatch) beginEnding() bool { return w.life.CompareAndSwap(watchGoesOn, watchEnding) }

// isEnding reports whether the watch has ended or will end.
func (w *StreamWatch) isEnding() bool { return w.life.Load() != watchGoesOn }

// hasEnded reports whether the worker has ended the watch.
func (w *StreamWatch) hasEnded() bool { return w.life.Load() == watchEnded }

// StreamWatchStatus describes a watch.
type StreamWatchStatus struct {
	Sent       object.Position // of the last message that was sent to the watch, or to another one that shares its cursor; zero: none yet
	Complete   object.Position // everything up to here was sent, though no message may have said so; not before Sent
	CatchingUp bool
	Messages   int64        // messages that were sent
	Bytes      int64        // of their events
	Backlog    feed.Backlog // the events after Sent
	Waiting    bool         // the stream has something to send and no room
}

// Status describes the watch. After the watch has ended, its status remains. Any goroutine may
// call Status, at any time.
func (w *StreamWatch) Status() StreamWatchStatus {
	c := w.lockCursor()
	if c == nil {
		return StreamWatchStatus{}
	}
	s := StreamWatchStatus{
		Sent: c.sentPosition, Complete: c.sentPosition, CatchingUp: !c.syncedSent,
		Messages: w.messages + c.messages, Bytes: w.bytes + c.bytes,
	}
	c.stream.mu.Unlock()
	if w.hasEnded() {
		s.CatchingUp = false
		return s
	}
	s.Waiting = c.stream.isWaiting.Load()
	if c.Feed == nil {
		return s
	}
	if s.CatchingUp {
		s.Backlog = feed.UnknownBacklog(s.Sent)
		return s
	}
	s.Complete = c.Feed.CompleteAfter(s.Sent)
	s.Backlog = c.backlog(s.Sent)
	return s
}

// MayHave returns the position of the last message of the watch that the client may have received,
// though the sink has not returned yet. Any goroutine may call it.
func (w *StreamWatch) MayHave() object.Position {
	c := w.lockCursor()
	if c == nil {
		return object.Position{}
	}
	defer c.stream.mu.Unlock()
	if c.isSending {
		return c.mayHave
	}
	return c.sentPosition
}

// lockCursor returns the cursor of the watch, with the mutex of its stream locked, or nil.
func (w *StreamWatch) lockCursor() *cursor {
	for {
		c := w.cursor.Load()
		if c == nil {
			return nil
		}
		c.stream.mu.Lock()
		if w.cursor.Load() == c {
			return c
		}
		c.stream.mu.Unlock() // the watch shares another cursor now
	}
}

// Shared identifies the cursor that the watch shares with others: equal values have equal Sent,
// Complete and Backlog. It is nil before the watch has started and after it has ended.
func (w *StreamWatch) Shared() any {
	c := w.cursor.Load()
	if c == nil || w.hasEnded() {
		return nil
	}
	return c
}

// Shows reports whether the log has an event of the revision that concerns the watch. If so, a client
// that has received a position at or above the revision has also received the event, or a newer
// state.
func (w *StreamWatch) Shows(revision object.Revision) bool {
	c := w.cursor.Load()
	return c != nil && c.Feed != nil && c.Feed.Shows(revision)
}

// Unapplied describes the events after a position that the client has applied. Their number is
// unknown if the log does not reach back to the position, or if the watch has no feed.
func (w *StreamWatch) Unapplied(applied object.Position) feed.Backlog {
	if c := w.cursor.Load(); c != nil && c.Feed != nil {
		return c.Feed.Backlog(applied)
	}
	return feed.UnknownBacklog(applied)
}

// Quiet reports whether nothing concerns the watch after the position from, up to and including the
// later revision to. It returns false if that is unknown, because the dispatcher has not reached the
// revision, or because the log does not reach back to the position. If the position is that of the
// last message, nothing concerns the watch up to where everything was sent, however old the log is.
func (w *StreamWatch) Quiet(from object.Position, to object.Revision) bool {
	switch c := w.cursor.Load(); {
	case c == nil:
		return false
	case c.direct != nil:
		return c.direct.reader.Quiet(from, to)
	}
	st := w.Status()
	if from.Epoch == st.Sent.Epoch && from.Revision >= st.Sent.Revision && st.Complete.Revision >= to {
		return true
	}
	c := w.cursor.Load()
	return c.Feed != nil && to > from.Revision && c.Feed.CompleteAfter(from).Revision >= to
}
