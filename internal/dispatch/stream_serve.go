package dispatch

import "time"

// Serve serves the stream until one of these happens, and then returns:
//   - nil: Finish or EndAll was called, every watch has ended, and everything has been sent
//   - the cause, as it was given: Abort was called. Nothing is sent after that.
//   - the error of the sink, or a [*PanicError] of the making of a response
//
// When Serve has returned, all watchers are closed and the stream uses no StreamWatch any more.
// A stream that never called Serve must not have started watches.
func (s *Stream) Serve() error {
	for s.serveOnce() {
	}
	s.task.Ready()
	<-s.released
	s.cancel()
	s.waits.Wait()
	s.mu.Lock()
	toClose, holds, cause := s.toClose, s.catchUps.holds, s.cause
	s.toClose = nil
	s.mu.Unlock()
	for _, c := range toClose {
		c.Close()
	}
	if holds {
		s.sink.Release()
	}
	return cause
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
	for _, c := range toClose {
		c.Close()
	}
	if toSend != nil {
		err := Guard(func() error { return s.sink.Send(toSend) })
		s.handlerSent(err)
	}
	if toMake {
		s.makeParts()
	}
	return true
}

// handlerSent gives the response that Serve has sent back to the worker.
func (s *Stream) handlerSent(err error) {
	if err != nil {
		s.stop(err)
		return
	}
	s.post(func(time.Time) {
		s.handlerSends = false
		s.responseSent()
	})
}
