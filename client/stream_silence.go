package client

import (
	"fmt"
	"time"
)

// signOfLife is when a server has last done something that watches wait for.
type signOfLife struct {
	at      time.Time
	doubted bool // it was too long ago, and the client finds out whether the server or the client is late
}

func (l *signOfLife) overdue(limit time.Duration) bool { return time.Since(l.at) >= limit }

// silent is called when a watch has received nothing for the limit. It returns an error if only this watch must leave
// the stream. Otherwise the watch waits on, because the stream decides for all its watches, so that they reach the
// next stream together:
//
//   - If the server sends nothing, although the watch was to receive something, the stream fails.
//   - If the server answers no starts, the watches without an answer leave. The others stay, because the starts may
//     only wait for etcd.
//   - While the server answers other starts, there is no silence. Nor is there for a watch whose start is not yet
//     written, until it has waited for the limit once more.
func (s *sharedStream) silent(w *streamWatch, limit time.Duration) error {
	err := fmt.Errorf("%w: no message for %v", errSilent, limit)
	s.mu.Lock()
	alone := false
	switch {
	case s.ctx.Err() != nil: // the stream ends
	case w.isReady(): // the message came before the mutex
	case !s.asked: // there is no connection yet
		s.breakOff(err)
	case s.answered.IsZero(): // limitHeader decides
	case !w.begun:
		s.silentStart(w, err)
	case s.received.overdue(limit):
		s.doubt(&s.received, limit, func() { s.breakOff(err) })
	default:
		alone = true
	}
	s.mu.Unlock()
	if !alone {
		return nil
	}
	s.choice.replace()
	return err
}

// silentStart is silent for a watch whose start has no answer. The caller holds mu.
func (s *sharedStream) silentStart(w *streamWatch, err error) {
	switch {
	case w.start != nil && !w.delayed:
		w.delayed = true
	case s.begun.overdue(w.limit):
		s.doubt(&s.begun, w.limit, func() { s.leaveUnanswered(w.limit, err) })
	}
}

// doubt calls leave, with mu held, if the server is silent, and not the client late itself, so that it has not read
// what has arrived. The client makes another request, whose answer takes the same way. Then the goroutine that reads
// the stream gets as much time again. The caller holds mu.
func (s *sharedStream) doubt(last *signOfLife, limit time.Duration, leave func()) {
	if last.doubted {
		return
	}
	last.doubted = true
	// The stream has not ended, so the pool does not wait for its goroutines yet.
	s.pool.running.Go(func() {
		began := time.Now()
		if s.answersOther(s.ctx, min(otherTimeout, limit/2)) {
			_ = sleep(s.ctx, time.Since(began))
		}
		s.mu.Lock()
		last.doubted = false
		silent := last.overdue(limit) && s.ctx.Err() == nil
		s.mu.Unlock()
		if silent {
			s.choice.replace()
			s.mu.Lock()
			leave()
			s.mu.Unlock()
		}
	})
}

// breakOff makes the stream fail. The caller holds mu.
func (s *sharedStream) breakOff(err error) {
	s.closing = true
	s.cancel(err)
}

// leaveUnanswered ends the watches whose starts have no answer after a limit. The caller holds mu.
func (s *sharedStream) leaveUnanswered(limit time.Duration, err error) {
	var unanswered []*streamWatch
	for _, w := range s.watches {
		if w != nil && !w.gone && !w.begun && w.limit <= limit {
			unanswered = append(unanswered, w)
		}
	}
	if len(unanswered) == s.active {
		s.breakOff(err)
		return
	}
	lost := &lostStream{err: err, watches: len(unanswered)}
	for _, w := range unanswered {
		s.stop(w)
		w.end(lost)
	}
}
