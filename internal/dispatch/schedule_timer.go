package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// scheduleTimer is the Schedule of a watcher, with a timer that makes the watcher's task ready
// when something is due. A nil scheduleTimer does nothing.
type scheduleTimer struct {
	Schedule
	timer taskTimer // of the watcher's task
}

// newScheduleTimer returns the schedule of a watcher, or nil if nothing is ever due.
func newScheduleTimer(o *Options, w *Watcher) *scheduleTimer {
	if o.BookmarkInterval == 0 && o.BatchDelay == 0 && o.LastBookmark.IsZero() {
		return nil
	}
	return &scheduleTimer{Schedule: NewSchedule(o), timer: taskTimer{ready: w.task.Ready}}
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
func (s *scheduleTimer) recordSent(h *object.Header, now time.Time) {
	if s != nil {
		s.RecordSent(h, now)
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
		s.timer.set(until, now)
	}
	return held
}

// awaitBookmark sets the timer for the next bookmark.
func (s *scheduleTimer) awaitBookmark(now time.Time) {
	if s == nil {
		return
	}
	if at := s.NextBookmark(); !at.IsZero() {
		s.timer.set(at, now)
	}
}

func (s *scheduleTimer) stop() {
	if s != nil {
		s.timer.stop()
	}
}
