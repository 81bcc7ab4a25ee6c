package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/work"
)

// run serves the stream on the worker, and sends at most one response. Afterwards, one of these is
// true: the task is ready again; the stream waits for its sink, for Serve, for its timer, for a
// round, or for somebody who calls a method.
func (s *Stream) run(now time.Time) {
	defer func() {
		if p := recover(); p != nil {
			s.Abort(work.Panicked(p))
			s.task.Ready() // releases the stream if Serve waits for that
		}
	}()
	s.ready = false
	for _, do := range s.takeInbox() {
		do(now)
	}
	if s.isEnded() {
		s.release()
		return
	}
	if s.unsent {
		return
	}
	s.clock.fire(s, now)
	if s.hasWork() {
		s.sendOne(now)
	}
	if s.unsent {
		return
	}
	s.shareCandidates(now)
	s.releaseSlot()
	if s.finishing && s.watches == 0 && len(s.waitingAnswers) == 0 && !s.more {
		s.Abort(s.soloEnd)
		return
	}
	s.joinGroup()
	s.clock.setTimer(s, now)
}

// takeInbox returns the functions that the worker has to call.
func (s *Stream) takeInbox() []func(time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.inbox
	s.inbox = nil
	return taken
}

// hasWork reports whether there may be something to send, or a part to make.
func (s *Stream) hasWork() bool {
	if s.more || len(s.waitingAnswers) > 0 || len(s.settling) > 0 || len(s.joins) > 0 || s.parts != nil || s.catchUpsWait() || s.hasDirect() {
		return true
	}
	for _, res := range s.resources {
		if len(res.marked) > 0 || res.tick != nil {
			return true
		}
	}
	return false
}

// sendOne sends a response, if the sink has room and there is something to send. It also lets
// Serve make parts.
func (s *Stream) sendOne(now time.Time) {
	hasRoom := s.sink.HasRoom()
	s.isWaiting.Store(!hasRoom)
	if !hasRoom {
		return
	}
	s.grantParts()
	s.grantDirect()
	if !s.makeResponse(now) {
		s.grantParts() // for cursors that have fallen behind meanwhile
		return
	}
	s.noteSending()
	switch err := s.sink.TrySend(&s.response, now); err {
	case nil:
		s.responseSent()
	case ErrNeedsServe:
		s.unsent = true
		s.mu.Lock()
		s.toSend = &s.response
		s.mu.Unlock()
		s.signal()
	default:
		s.unsent = true
		s.Abort(err)
	}
}

// MaxKeptEntries limits the entries for which a stream and its sink keep memory between responses. A response
// has very many when very many watches begin together; later, most have one.
const MaxKeptEntries = 64

// noteSending notes that the client may have the response from now on: it may report a position
// before the sink has returned.
func (s *Stream) noteSending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.response.Entries {
		e := &s.response.Entries[i]
		if e.cursor != nil {
			e.cursor.noteSending(e.Batch)
		}
		for _, c := range e.cursors {
			c.noteSending(e.Batch)
		}
	}
}

func (c *cursor) noteSending(b *feed.Batch) { c.isSending, c.mayHave = true, b.Header.Position }

// responseSent notes that the response was sent.
func (s *Stream) responseSent() {
	s.unsent = false
	s.more = s.response.More
	s.mu.Lock()
	answered := 0
	for i := range s.response.Entries {
		e := &s.response.Entries[i]
		switch {
		case e.Batch == nil:
			answered += e.IDs.Len()
		case e.cursor != nil:
			e.cursor.noteSent(e.Batch, s.sizeOf(e.Batch), e.joined)
		}
		for _, c := range e.cursors {
			c.noteSent(e.Batch, s.sizeOf(e.Batch), nil)
		}
	}
	s.answers.remove(answered)
	s.mu.Unlock()
	if cap(s.response.Entries) > MaxKeptEntries {
		s.response.Entries = nil
	}
	if s.hasWork() {
		s.task.Ready() // the worker runs the other ready tasks first
	}
}

// release ends the use of the stream by the worker. Serve then closes all cursors.
func (s *Stream) release() {
	s.clock.stop()
	for _, res := range s.resources {
		delete(res.rounds.resources, res)
	}
	for _, c := range s.cursors() {
		s.closeCursor(c)
	}
	s.mu.Lock()
	s.released = true
	s.mu.Unlock()
	s.signal()
}

// Serve serves the stream until one of these happens, and then returns:
//   - nil: Finish or EndAll was called, every watch has ended, and everything has been sent
//   - the reason of its end: the watch of a stream with one watch has ended, and everything has been
//     sent
//   - the cause, as it was given: Abort was called. Nothing is sent after that.
//   - the error of the sink, or a [*work.PanicError] of the making of a response
//
// When Serve has returned, all cursors are closed and the stream uses no StreamWatch any more.
// A stream that never called Serve must not have started watches.
func (s *Stream) Serve() error {
	for s.serveOnce() {
	}
	s.task.Ready()
	for !s.isReleased() {
		<-s.wakeServe
	}
	s.mu.Lock()
	if s.ctx != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.waits.Wait()
	s.mu.Lock()
	toClose, cause := s.toClose, s.cause
	s.toClose = nil
	s.mu.Unlock()
	for _, c := range toClose {
		c.close()
	}
	return cause
}

func (s *Stream) isReleased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released
}

// serveOnce waits until the stream has something for Serve to do, and does it. It returns false if
// Serve has to return.
func (s *Stream) serveOnce() bool {
	<-s.wakeServe
	s.mu.Lock()
	ended := s.ended
	toClose, toSend, toMake := s.toClose, s.toSend, s.catchUps.toMake
	if !ended {
		s.toClose, s.toSend, s.catchUps.toMake = nil, nil, false
	}
	s.mu.Unlock()
	if ended {
		return false
	}
	if err := work.OnFreshStack(func() error {
		for _, c := range toClose {
			c.close()
		}
		if toSend != nil {
			s.serveSent(work.Guard(func() error { return s.sink.Send(toSend) }))
		}
		if toMake {
			s.makeParts()
		}
		return nil
	}); err != nil {
		s.Abort(err)
	}
	return true
}

// serveSent gives the response that Serve has sent back to the worker.
func (s *Stream) serveSent(err error) {
	if err != nil {
		s.Abort(err)
		return
	}
	s.post(func(time.Time) { s.responseSent() })
}
