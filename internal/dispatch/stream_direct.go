package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/work"
)

// DirectReader is what a stream needs of the reader of a resource without a cache; see package
// direct. One goroutine at a time calls the methods.
type DirectReader interface {
	Await(ctx context.Context) error // waits until Next has a message, and holds none
	Next(ctx context.Context) (feed.Message, error)
	CatchesUp() bool     // Next is about to read the store, which may take long
	ReadsSnapshot() bool // Next is about to return a part of a snapshot
	Position() object.Position
	Close()

	// Quiet is [StreamWatch.Quiet]. Any goroutine may call it.
	Quiet(from object.Position, to object.Revision) bool
}

// directCursor is the part of a cursor that a watch of StartDirect needs. A goroutine calls
// the methods of the reader.
type directCursor struct {
	reader  DirectReader
	ctx     context.Context
	cancel  context.CancelFunc
	granted chan struct{} // capacity 1: the goroutine may call Next

	// Only the worker uses the fields below.

	lane      *directLane // of the next message
	needsSlot bool        // the next message needs the slot
	dropped   bool        // a message was made and not sent, because the watch ends
	stopped   bool        // the goroutine has ended
	end       func()      // ends the watch when the goroutine has ended; nil: the watch goes on
}

// directCursors are the cursors of the watches of StartDirect. At most one of each lane makes a
// message at a time, and only while the sink has room. So a stream that is not read holds two
// messages. Only the worker uses the fields.
type directCursors struct {
	all      []*cursor
	live     directLane
	catchUps directLane // apart, because live messages must not wait for the store
	first    bool       // a message did not fit into the latest response, so it comes first
}

// directLane has cursors that make their messages one after another.
type directLane struct {
	waiting []*cursor       // these have a message to make; some may be closed
	granted *cursor         // makes its message; nil: none
	made    *catchUpMessage // was made and is not in a response yet; nil: none
}

func (q *directCursors) lanes() []*directLane {
	if q == nil {
		return nil
	}
	return []*directLane{&q.live, &q.catchUps}
}

// hasMade reports whether a message of the cursor was made and is not in a response yet.
func (q *directCursors) hasMade(c *cursor) bool {
	made := func(l *directLane) bool { return l.made != nil && l.made.cursor == c }
	return made(&q.live) || made(&q.catchUps)
}

// StartDirect starts a watch whose messages come from a resource without feeds. The stream runs one
// goroutine for it, which calls the methods of the reader. Next is called only when the stream
// has room for its message.
func (s *Stream) StartDirect(w *StreamWatch, r DirectReader) {
	c := newCursor(s, w, &Options{})
	c.direct = &directCursor{reader: r, granted: make(chan struct{}, 1)}
	c.resume = r.Position()
	s.mu.Lock()
	c.direct.ctx, c.direct.cancel = context.WithCancel(s.contextLocked())
	s.mu.Unlock()
	if !s.post(func(time.Time) { s.beginDirect(c) }) {
		c.direct.cancel()
		r.Close()
	}
}

// hasDirects reports whether the stream has watches of StartDirect.
func (s *Stream) hasDirects() bool { return s.directs != nil && len(s.directs.all) > 0 }

// beginDirect starts a watch on the worker.
func (s *Stream) beginDirect(c *cursor) {
	s.leaveGroup()
	c.state = cursorLive
	if s.directs == nil {
		s.directs = &directCursors{}
	}
	s.directs.all = append(s.directs.all, c)
	s.mu.Lock()
	c.watches[0].cursor.Store(c)
	s.mu.Unlock()
	s.watches++
	s.waits.Go(func() {
		defer c.direct.cancel()
		err := work.Guard(func() error { return s.serveDirect(c) })
		r := c.direct.reader
		position := r.Position()
		r.Close()
		s.post(func(time.Time) { s.directStopped(c, position, err) })
	})
	if s.endAll != nil {
		s.endCursor(c, s.endAll)
	}
}

// serveDirect makes the messages of a watch.
func (s *Stream) serveDirect(c *cursor) error {
	d := c.direct
	for {
		if err := d.reader.Await(d.ctx); err != nil {
			return err
		}
		needs, catchesUp := d.reader.ReadsSnapshot(), d.reader.CatchesUp()
		s.post(func(time.Time) {
			d.needsSlot, d.lane = needs, &s.directs.live
			if catchesUp {
				d.lane = &s.directs.catchUps
			}
			d.lane.waiting = append(d.lane.waiting, c)
		})
		select {
		case <-d.granted:
		case <-d.ctx.Done():
			return d.ctx.Err()
		}
		m, err := d.reader.Next(d.ctx)
		if err != nil {
			return err
		}
		needs = d.reader.ReadsSnapshot()
		s.post(func(time.Time) { s.directMade(c, m, needs) })
	}
}

// grantDirect lets the next cursor of each lane make its message. The worker calls it while the sink
// has room.
func (s *Stream) grantDirect() {
	for _, l := range s.directs.lanes() {
		for len(l.waiting) > 0 && l.granted == nil && l.made == nil {
			c := l.waiting[0]
			if s.directs.hasMade(c) {
				break // in the other lane, and it comes first
			}
			l.waiting = slices.Delete(l.waiting, 0, 1)
			if c.state == cursorClosed || c.direct.end != nil || c.direct.needsSlot && !s.acquireSlotDirect(c) {
				continue
			}
			l.granted = c
			c.direct.granted <- struct{}{}
		}
	}
}

// acquireSlotDirect reports whether the stream has the slot. If not, the cursor waits for it.
func (s *Stream) acquireSlotDirect(c *cursor) bool {
	s.checkSlot()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.catchUps
	q.setTransfersLocked(c, true)
	if !q.holdsSlot {
		q.parkLocked(c)
		s.acquireSlotLocked()
	}
	return q.holdsSlot
}

// directMade takes a message. The argument needs reports whether the next one needs the slot.
func (s *Stream) directMade(c *cursor, m feed.Message, needs bool) {
	l := c.direct.lane
	l.granted = nil
	if c.state == cursorClosed {
		return
	}
	s.mu.Lock()
	isPart := c.needsSlot && m.Header.Kind == object.CatchUpPart
	s.catchUps.setTransfersLocked(c, needs)
	s.mu.Unlock()
	l.made = &catchUpMessage{c, m, isPart}
}

// directStopped ends a watch whose goroutine has ended. The position is the one from which the
// client can resume if it gets all messages that were made.
func (s *Stream) directStopped(c *cursor, position object.Position, err error) {
	d := c.direct
	d.stopped = true
	pending := false
	for _, l := range s.directs.lanes() {
		if l.made != nil && l.made.cursor == c {
			l.made, pending = nil, true
		}
		if l.granted == c {
			l.granted, pending = nil, pending || len(d.granted) == 0
		}
	}
	if !pending && !d.dropped && errors.Is(err, context.Canceled) {
		c.resume = position
	}
	switch {
	case d.end != nil:
		d.end()
	case c.state != cursorClosed:
		s.endCursor(c, &Ending{Reason: err})
	}
}

// addDirect adds the messages that watches of StartDirect have made, if they fit.
func (s *Stream) addDirect(now time.Time) {
	if s.directs == nil {
		return
	}
	s.directs.first = false
	for _, l := range s.directs.lanes() {
		if l.made != nil && s.addMade(l.made, now) {
			l.made = nil
		}
	}
}

// addMade adds a message that a watch of StartDirect has made. It returns false if the message does
// not fit.
func (s *Stream) addMade(m *catchUpMessage, now time.Time) bool {
	switch {
	case m.cursor.state == cursorClosed || m.cursor.direct.end != nil:
		m.cursor.direct.dropped = true
	case m.cursor.entrySize(m.message.Size()) > s.room() && len(s.response.Entries) > 0:
		s.directs.first = true
		return false
	default:
		s.addMessage(m.cursor, &feed.Batch{Message: m.message}, now)
		s.response.Part = s.response.Part || m.isPart
	}
	return true
}

// hasDirect reports whether a watch of StartDirect has something to send or to make.
func (s *Stream) hasDirect() bool {
	for _, l := range s.directs.lanes() {
		if l.made != nil || len(l.waiting) > 0 && l.granted == nil {
			return true
		}
	}
	return false
}

// endDirect ends a watch of StartDirect when its goroutine knows the position for the last message.
// It returns false if that is known already, or not needed.
func (s *Stream) endDirect(c *cursor, e *Ending, end func()) bool {
	if c.direct == nil || c.direct.stopped || !e.Last {
		return false
	}
	c.direct.end = end
	c.direct.cancel()
	return true
}

// closeDirect ends the use of a cursor. Its goroutine closes the reader.
func (s *Stream) closeDirect(c *cursor) {
	c.state = cursorClosed
	c.direct.cancel()
	if i := slices.Index(s.directs.all, c); i >= 0 {
		s.directs.all = slices.Delete(s.directs.all, i, i+1)
	}
	if l := c.direct.lane; l != nil {
		l.waiting = slices.DeleteFunc(l.waiting, func(other *cursor) bool { return other == c })
	}
	s.mu.Lock()
	s.catchUps.removeLocked(c)
	s.mu.Unlock()
}
