package dispatch

import "time"

// Serve serves the stream until one of these happens, and then returns:
//   - nil: Finish or EndAll was called, every watch has ended, and everything has been sent
//   - the reason of its end: the watch of a stream with one watch has ended, and everything has been
//     sent
//   - the cause, as it was given: Abort was called. Nothing is sent after that.
//   - the error of the sink, or a [*PanicError] of the making of a response
//
// When Serve has returned, all watchers are closed and the stream uses no StreamWatch any more.
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
	if err := OnFreshStack(func() error {
		for _, c := range toClose {
			c.close()
		}
		if toSend != nil {
			s.handlerSent(Guard(func() error { return s.sink.Send(toSend) }))
		}
		if toMake {
			s.makeParts()
		}
		return nil
	}); err != nil {
		s.stop(err)
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
