package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// scheduleTimer is the Schedule of a watcher, with a timer that makes the watcher's task ready
// when something is due. A nil scheduleTimer does nothing.
type scheduleTimer struct {
	Schedule
	ready  func()      // makes the watcher's task ready
	timer  *time.Timer // nil: never set
	fireAt time.Time   // the time for which the timer was last set; zero: never set
}

// newScheduleTimer returns the schedule of a watcher, or nil if nothing is ever due.
func newScheduleTimer(o *Options, w *Watcher) *scheduleTimer {
	if o.BookmarkInterval == 0 && o.BatchDelay == 0 && o.LastBookmark.IsZero() {
		return nil
	}
	return &scheduleTimer{Schedule: NewSchedule(o), ready: w.task.Ready}
}

// needsEveryMessage reports whether the schedule has to know when each message was sent. If
// only the last bookmark is configured, as for nearly all watchers, the schedule need not
// know: the last bookmark is due at a fixed time.
func (s *scheduleTimer) needsEveryMessage() bool {
	return s != nil && (s.bookmarkInterval > 0 || s.batchDelay > 0)
}

// due returns the result of [Schedule.Due], or NotDue for a nil schedule.
func (s *scheduleTimer) due(now time.Time) Due {
	if s == nil {
		return NotDue
	}
	return s.Due(now)
}

// recordSent calls [Schedule.RecordSent], unless the schedule is nil.
func (s *scheduleTimer) recordSent(kind object.MessageKind, now time.Time) {
	if s != nil {
		s.RecordSent(kind, now)
	}
}

// holds reports whether live events have to wait for the batch delay. If so, the timer makes
// the watcher's task ready at the end of the delay.
func (s *scheduleTimer) holds(now time.Time) bool {
	if s == nil {
		return false
	}
	until, held := s.HeldUntil(now)
	if held {
		s.setTimer(until, now)
	}
	return held
}

// awaitBookmark sets the timer for the next bookmark.
func (s *scheduleTimer) awaitBookmark(now time.Time) {
	if s == nil {
		return
	}
	if at := s.NextBookmark(); !at.IsZero() {
		s.setTimer(at, now)
	}
}

// setTimer makes the watcher's task ready at the given time, or earlier. It keeps a timer that
// fires earlier, because resetting the timer for each message costs more than one needless
// run of the task.
func (s *scheduleTimer) setTimer(at, now time.Time) {
	if s.fireAt.After(now) && !s.fireAt.After(at) {
		return
	}
	s.fireAt = at
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.ready)
	} else {
		s.timer.Reset(at.Sub(now))
	}
}

func (s *scheduleTimer) stop() {
	if s != nil && s.timer != nil {
		s.timer.Stop()
	}
}
