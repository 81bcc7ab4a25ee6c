package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/work"
)

// catchUpQueue has the cursors whose catch-ups Serve makes. A cursor with a large catch-up goes to
// the end of the queue after each part, so small catch-ups do not wait for large ones. Stream.mu
// guards the fields.
type catchUpQueue struct {
	waiting []*cursor // in the order of their turns; some may be closed
	parked  []*cursor // these wait for the slot; some may be closed
	making  *cursor   // Serve makes a part of this one

	transferring int // number of cursors that need the slot
	parkedOpen   int // number of parked cursors that are not closed
	closed       int // upper limit of the closed cursors in waiting and parked

	granted bool // Serve may make parts, or has made parts that the worker has not taken
	toMake  bool // Serve has to make parts

	holdsSlot bool               // the stream has the slot, as far as it knows
	acquiring context.CancelFunc // ends the call of AcquireSlot; nil: there is none
}

// catchUpMessage is a message of a catch-up that Serve has made.
type catchUpMessage struct {
	cursor  *cursor
	message feed.Message
	isPart  bool // of a RESET or a DELTA
}

// madeParts is what Serve gives to the worker.
type madeParts struct {
	messages []catchUpMessage
	synced   []*cursor // the worker goes on: with SYNCED, or with live events
	failed   []failedCatchUp
}

type failedCatchUp struct {
	cursor *cursor
	err    error
}

// queueCatchUp makes Serve bring a cursor up to date. The worker calls it.
func (s *Stream) queueCatchUp(c *cursor) {
	c.state = cursorCatchesUp
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.catchUps
	q.setTransfersLocked(c, c.Step == catchup.StepSnapshot)
	q.waiting = append(q.waiting, c)
}

func (q *catchUpQueue) setTransfersLocked(c *cursor, transfers bool) {
	if c.needsSlot == transfers {
		return
	}
	if c.needsSlot = transfers; transfers {
		q.transferring++
	} else {
		q.transferring--
	}
}

// removeLocked removes a cursor that is closed. It returns false if Serve makes a part of the
// cursor.
func (q *catchUpQueue) removeLocked(c *cursor) bool {
	c.abandoned = true
	if q.making == c {
		return false
	}
	q.setTransfersLocked(c, false)
	if c.isParked {
		q.unparkLocked(c)
		if q.parkedOpen == 0 && q.acquiring != nil {
			q.acquiring() // no watch needs the slot any more
		}
	}
	// Sometimes all closed cursors go, because their turns may be far away.
	if q.closed++; 2*q.closed >= len(q.waiting)+len(q.parked) {
		isClosed := func(c *cursor) bool { return c.abandoned }
		q.waiting, q.parked = slices.DeleteFunc(q.waiting, isClosed), slices.DeleteFunc(q.parked, isClosed)
		q.closed = 0
	}
	return true
}

func (q *catchUpQueue) parkLocked(c *cursor) {
	c.isParked = true
	q.parked = append(q.parked, c)
	q.parkedOpen++
}

func (q *catchUpQueue) unparkLocked(c *cursor) {
	c.isParked = false
	q.parkedOpen--
}

// catchUpsWait reports whether Serve could make parts.
func (s *Stream) catchUpsWait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.catchUps.waiting) > 0 && !s.catchUps.granted
}

// grantParts lets Serve make parts for one response, unless there are parts already. The worker calls it
// while the sink has room.
func (s *Stream) grantParts() {
	if s.parts != nil || !s.catchUpsWait() {
		return
	}
	s.checkSlot()
	s.mu.Lock()
	s.catchUps.granted, s.catchUps.toMake = true, true
	s.mu.Unlock()
	s.signal()
}

// makeParts makes the parts for one response, on the goroutine of Serve.
func (s *Stream) makeParts() {
	var made madeParts
	limit := maxPartBytes
	if s.solo {
		limit = 1 // each message has a response of its own
	}
	bytes := 0
	for bytes < limit {
		c := s.nextCatchUp()
		if c == nil {
			break
		}
		n, err := s.makePartsOf(c, &made, limit-bytes)
		bytes += n
		s.putBack(c, &made, err)
	}
	s.post(func(now time.Time) { s.takeParts(&made) })
}

// nextCatchUp returns the cursor whose turn it is, or nil.
func (s *Stream) nextCatchUp() *cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.catchUps
	for len(q.waiting) > 0 {
		c := q.waiting[0]
		q.waiting[0] = nil
		if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
			q.waiting = nil // most streams have no catch-up for most of their time
		}
		if !c.abandoned {
			q.making = c
			return c
		}
	}
	return nil
}

// These errors end the turn of a cursor. They do not end its watches.
var (
	errPartsFull = errors.New("the response is full")
	errNeedsSlot = errors.New("the next part needs the slot")
)

// makePartsOf makes messages of one cursor until SYNCED or a batch delay comes next, and returns their
// size. It returns errPartsFull when their size has reached the limit.
func (s *Stream) makePartsOf(c *cursor, made *madeParts, limit int) (bytes int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = work.Panicked(p)
		}
	}()
	holds := s.holdsSlot()
	for {
		if c.NeedsSlot() && !holds {
			return bytes, errNeedsSlot
		}
		before := c.Step
		m, ok, err := c.NextMessage()
		if !ok || err != nil {
			return bytes, err
		}
		if m.Header.Kind == object.CatchUpBegin {
			if c.NeedsSlot() && !holds {
				if s.solo && c.announced == nil {
					// The client need not wait to know what comes.
					c.announced = &m.Header
					made.messages = append(made.messages, catchUpMessage{cursor: c, message: m})
				}
				c.stepAside(before)
				return bytes, errNeedsSlot
			}
			announced := c.announced
			if c.announced = nil; announced != nil && *announced == m.Header {
				continue
			}
		}
		isPart := c.TransfersState() && m.Header.Kind == object.CatchUpPart
		made.messages = append(made.messages, catchUpMessage{c, m, isPart})
		if m.Header.Kind == object.Live && c.timing != nil && c.timing.batchDelay > 0 {
			return bytes, nil // the next events wait for the delay
		}
		// A cursor does not wait for its next turn while it holds its first part.
		if bytes += m.Size() + 2*entryBytes; bytes >= limit && !c.HoldsPart() && !c.SyncedIsNext() {
			return bytes, errPartsFull
		}
	}
}

// stepAside undoes the beginning of a catch-up that has to wait for the slot, because a
// waiting catch-up must not hold its first part. It begins anew with the slot. The argument is
// the step before it began.
func (c *cursor) stepAside(before catchup.Step) {
	if before == catchup.StepCatchUp {
		before = catchup.StepBehind // an earlier catch-up could not continue
	}
	c.AbandonCatchUp()
	c.Step = before
}

func (s *Stream) holdsSlot() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catchUps.holdsSlot
}

// putBack ends the turn of a cursor.
func (s *Stream) putBack(c *cursor, made *madeParts, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.catchUps
	q.making = nil
	if c.abandoned {
		q.setTransfersLocked(c, false)
		s.toClose = append(s.toClose, c)
		s.signal()
		return
	}
	q.setTransfersLocked(c, err == errNeedsSlot || err == errPartsFull && c.TransfersState())
	switch err {
	case nil:
		made.synced = append(made.synced, c)
	case errPartsFull:
		q.waiting = append(q.waiting, c)
	case errNeedsSlot:
		q.parkLocked(c)
		s.acquireSlotLocked()
	default:
		made.failed = append(made.failed, failedCatchUp{c, err})
	}
}

// takeParts gets parts from Serve. The worker calls it.
func (s *Stream) takeParts(made *madeParts) {
	s.mu.Lock()
	s.catchUps.granted = false
	s.mu.Unlock()
	s.parts = made
	if len(made.messages) == 0 {
		s.partsAdded()
	}
}

// addParts adds the parts that Serve has made, if they fit. The parts of watches that have ended
// meanwhile are dropped.
func (s *Stream) addParts(now time.Time) bool {
	if s.parts == nil {
		return false
	}
	n := 0
	for _, p := range s.parts.messages {
		n += p.cursor.entrySize(p.message.Size())
	}
	if n > s.room() && len(s.response.Entries) > 0 {
		return true // they are in the next response
	}
	for len(s.parts.messages) > 0 {
		if s.isFull() {
			return true
		}
		p := s.parts.messages[0]
		s.parts.messages = s.parts.messages[1:]
		if p.cursor.state != cursorClosed {
			s.addMessage(p.cursor, &feed.Batch{Message: p.message}, now)
			s.response.Part = s.response.Part || p.isPart
		}
	}
	s.partsAdded()
	s.addSettling(now)
	s.partsNext = false
	return len(s.response.Entries) > 0
}

// partsAdded continues with the cursors whose parts are in the response.
func (s *Stream) partsAdded() {
	made := s.parts
	s.parts = nil
	for _, c := range made.synced {
		if c.state != cursorClosed {
			s.settle(c)
		}
	}
	for _, f := range made.failed {
		s.endCursor(f.cursor, &Ending{Reason: f.err})
	}
}
