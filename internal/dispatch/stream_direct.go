package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// DirectWatcher is what a stream needs of the watcher of a resource without a cache; see package
// direct. One goroutine at a time calls the methods.
type DirectWatcher interface {
	Await(ctx context.Context) error // waits until Next has a message, and holds none
	Next(ctx context.Context) (Message, error)
	ReadsSnapshot() bool // Next is about to return a part of a snapshot
	Position() object.Position
	Close()
}

// directCursor is the part of a streamCursor that a watch of StartDirect needs. A goroutine calls
// the methods of the watcher.
type directCursor struct {
	watcher DirectWatcher
	ctx     context.Context
	cancel  context.CancelFunc
	granted chan struct{} // capacity 1: the goroutine may call Next

	// Only the worker uses the fields below.

	needs   bool   // the next message needs the reservation
	dropped bool   // a message was made and not sent, because the watch ends
	stopped bool   // the goroutine has ended
	end     func() // ends the watch when the goroutine has ended; nil: the watch goes on
}

// directCursors are the cursors of the watches of StartDirect. At most one of them makes a message
// at a time, and only while the sink has room. So a stream that is not read holds one message.
// Only the worker uses the fields.
type directCursors struct {
	all     []*streamCursor
	waiting []*streamCursor // these have a message to make; some may be closed
	granted *streamCursor   // makes its message; nil: none
	made    *catchUpMessage // was made and is not in a response yet; nil: none
	first   bool            // the message did not fit into the latest response, so it comes first
}

// StartDirect starts a watch whose messages come from a source without feeds. The stream runs one
// goroutine for it, which calls the methods of the watcher. Next is called only when the stream
// has room for its message.
func (s *Stream) StartDirect(w *StreamWatch, m DirectWatcher) {
	c := newStreamCursor(s, w, &Options{})
	c.direct = &directCursor{watcher: m, granted: make(chan struct{}, 1)}
	c.resume = m.Position()
	c.direct.ctx, c.direct.cancel = context.WithCancel(s.ctx)
	if !s.post(func(time.Time) { s.beginDirect(c) }) {
		c.direct.cancel()
		m.Close()
	}
}

// beginDirect starts a watch on the worker.
func (s *Stream) beginDirect(c *streamCursor) {
	c.state = cursorLive
	s.directs.all = append(s.directs.all, c)
	s.mu.Lock()
	c.watches[0].cursor.Store(c)
	s.mu.Unlock()
	s.watches++
	s.waits.Go(func() {
		defer c.direct.cancel()
		err := Guard(func() error { return s.serveDirect(c) })
		m := c.direct.watcher
		position := m.Position()
		m.Close()
		s.post(func(time.Time) { s.directStopped(c, position, err) })
	})
	if s.endAll != nil {
		s.endCursor(c, s.endAll)
	}
}

// serveDirect makes the messages of a watch.
func (s *Stream) serveDirect(c *streamCursor) error {
	d := c.direct
	for {
		if err := d.watcher.Await(d.ctx); err != nil {
			return err
		}
		needs := d.watcher.ReadsSnapshot()
		s.post(func(time.Time) {
			d.needs = needs
			s.directs.waiting = append(s.directs.waiting, c)
		})
		select {
		case <-d.granted:
		case <-d.ctx.Done():
			return d.ctx.Err()
		}
		m, err := d.watcher.Next(d.ctx)
		if err != nil {
			return err
		}
		needs = d.watcher.ReadsSnapshot()
		s.post(func(time.Time) { s.directMade(c, m, needs) })
	}
}

// grantDirect lets the next cursor make its message. The worker calls it while the sink has room.
func (s *Stream) grantDirect() {
	q := &s.directs
	for len(q.waiting) > 0 && q.granted == nil && q.made == nil {
		c := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		if c.state == cursorClosed || c.direct.end != nil || c.direct.needs && !s.reserveDirect(c) {
			continue
		}
		q.granted = c
		c.direct.granted <- struct{}{}
	}
}

// reserveDirect reports whether the stream has the reservation. If not, the cursor waits for it.
func (s *Stream) reserveDirect(c *streamCursor) bool {
	s.mu.Lock()
	holds := s.catchUps.holds
	s.mu.Unlock()
	if holds {
		holds = s.sink.HoldsReservation()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.catchUps
	q.holds = holds
	q.setTransfersLocked(c, true)
	if !holds {
		q.parkLocked(c)
		s.reserveLocked()
	}
	return holds
}

// directMade takes a message. The argument needs says whether the next one needs the reservation.
func (s *Stream) directMade(c *streamCursor, m Message, needs bool) {
	q := &s.directs
	q.granted = nil
	if c.state == cursorClosed {
		return
	}
	isPart := c.transfers() && m.Header.Kind == object.CatchUpPart
	s.mu.Lock()
	s.catchUps.setTransfersLocked(c, needs)
	s.mu.Unlock()
	q.made = &catchUpMessage{c, m, isPart}
}

// transfers reports whether the cursor uses the reservation.
func (c *streamCursor) transfers() bool {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.transfersState
}

// directStopped ends a watch whose goroutine has ended. The position is the one from which the
// client can resume if it gets all messages that were made.
func (s *Stream) directStopped(c *streamCursor, position object.Position, err error) {
	q, d := &s.directs, c.direct
	d.stopped = true
	pending := q.made != nil && q.made.cursor == c || q.granted == c && len(d.granted) == 0
	if q.granted == c {
		q.granted = nil
	}
	if pending {
		q.made = nil
	} else if !d.dropped && errors.Is(err, context.Canceled) {
		c.resume = position
	}
	switch {
	case d.end != nil:
		d.end()
	case c.state != cursorClosed:
		s.endCursor(c, &Ending{Reason: err})
	}
}

// addDirect adds the message that a watch of StartDirect has made, if it fits.
func (s *Stream) addDirect(now time.Time) {
	q := &s.directs
	if q.made == nil {
		return
	}
	m := q.made
	q.first = false
	switch {
	case m.cursor.state == cursorClosed || m.cursor.direct.end != nil:
		m.cursor.direct.dropped = true
	case m.cursor.list().size(m.message.size()) > s.room() && len(s.response.Entries) > 0:
		q.first = true
		return
	default:
		s.addMessage(m.cursor, &Batch{Message: m.message}, now)
		s.response.Part = s.response.Part || m.isPart
	}
	q.made = nil
}

// hasDirect reports whether a watch of StartDirect has something to send or to make.
func (s *Stream) hasDirect() bool {
	q := &s.directs
	return q.made != nil || len(q.waiting) > 0 && q.granted == nil
}

// endDirect ends a watch of StartDirect when its goroutine knows the position for the last message.
// It returns false if that is known already, or not needed.
func (s *Stream) endDirect(c *streamCursor, e *Ending, end func()) bool {
	if c.direct == nil || c.direct.stopped || !e.Last {
		return false
	}
	c.direct.end = end
	c.direct.cancel()
	return true
}

// closeDirect ends the use of a cursor. Its goroutine closes the watcher.
func (s *Stream) closeDirect(c *streamCursor) {
	c.state = cursorClosed
	c.direct.cancel()
	if i := slices.Index(s.directs.all, c); i >= 0 {
		s.directs.all = slices.Delete(s.directs.all, i, i+1)
	}
	s.mu.Lock()
	s.catchUps.removeLocked(c)
	s.mu.Unlock()
}
