package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Schedule decides when a watcher sends bookmarks and how long it holds live events back. It
// applies to watchers of this package and of package direct. Callers pass the time, because
// reading it costs more than everything the schedule does.
type Schedule struct {
	interval time.Duration // see [Options.BookmarkInterval]
	delay    time.Duration // see [Options.BatchDelay]
	end      time.Time     // see [Options.LastBookmark]

	lastMessage time.Time // when the last message was sent
	live        time.Time // when the last live message was sent
	last        bool      // the last bookmark has been sent
}

// NewSchedule returns the schedule for the options.
func NewSchedule(o *Options) Schedule {
	s := Schedule{interval: o.BookmarkInterval, delay: o.BatchDelay, end: o.LastBookmark}
	if s.interval > 0 {
		// A client would take a longer silence for a dead server.
		s.delay = min(s.delay, s.interval)
	}
	return s
}

// Due is why a bookmark is due.
type Due uint8

// The reasons for a bookmark.
const (
	NotDue   Due = iota
	Silence      // no message for an interval
	Farewell     // the watch is about to end
)

// Due returns why a bookmark is due, if it is.
func (s *Schedule) Due(now time.Time) Due {
	switch {
	case s.atEnd(now):
		return Farewell
	case s.interval > 0 && now.Sub(s.lastMessage) >= s.interval:
		return Silence
	}
	return NotDue
}

// atEnd reports whether the last bookmark is due.
func (s *Schedule) atEnd(now time.Time) bool { return !s.end.IsZero() && !s.last && !now.Before(s.end) }

// Sent records a message.
func (s *Schedule) Sent(kind object.MessageKind, now time.Time) {
	s.lastMessage = now
	switch kind {
	case object.Live:
		s.live = now
	case object.Bookmark:
		s.last = s.last || s.atEnd(now)
	}
}

// Postpone delays the due bookmark by one interval, because the watcher cannot send one now.
func (s *Schedule) Postpone(now time.Time) { s.lastMessage = now }

// HeldUntil returns when the batch delay of live events ends. It returns false if they need
// not wait.
func (s *Schedule) HeldUntil(now time.Time) (time.Time, bool) {
	if s.delay == 0 {
		return time.Time{}, false
	}
	until := s.live.Add(s.delay)
	if !s.end.IsZero() && s.end.Before(until) {
		until = s.end
	}
	return until, now.Before(until)
}

// NextBookmark returns when the next bookmark is due if there is no message before. It is
// the zero time if none is due.
func (s *Schedule) NextBookmark() time.Time {
	var at time.Time
	if s.interval > 0 {
		at = s.lastMessage.Add(s.interval)
	}
	if !s.last && !s.end.IsZero() && (at.IsZero() || s.end.Before(at)) {
		at = s.end
	}
	return at
}

// clock readies the task of a watcher when its schedule says so. A nil clock does nothing.
type clock struct {
	Schedule
	wake    func()      // readies the watcher's task
	timer   *time.Timer // nil until there is something to wait for
	timerAt time.Time   // when the timer was last set to fire; zero: not yet set
}

// newClock returns the clock of a watcher, or nil if it needs none.
func newClock(o *Options, w *Watcher) *clock {
	if o.BookmarkInterval == 0 && o.BatchDelay == 0 && o.LastBookmark.IsZero() {
		return nil
	}
	return &clock{Schedule: NewSchedule(o), wake: w.task.Ready}
}

// needsEveryMessage reports whether the clock has to know of each message. The last bookmark,
// which nearly all watchers have, is at a fixed time and does not need it.
func (c *clock) needsEveryMessage() bool { return c != nil && (c.interval > 0 || c.delay > 0) }

// due is [Schedule.Due]. No bookmark of a nil clock is ever due.
func (c *clock) due(now time.Time) Due {
	if c == nil {
		return NotDue
	}
	return c.Due(now)
}

// sent is [Schedule.Sent], except that a nil clock records nothing.
func (c *clock) sent(kind object.MessageKind, now time.Time) {
	if c != nil {
		c.Sent(kind, now)
	}
}

// holds reports whether live events have to wait for the batch delay. If so, the timer
// wakes the watcher afterwards.
func (c *clock) holds(now time.Time) bool {
	if c == nil {
		return false
	}
	until, held := c.HeldUntil(now)
	if held {
		c.wakeAt(until, now)
	}
	return held
}

// setTimer wakes the watcher when the next bookmark is due.
func (c *clock) setTimer(now time.Time) {
	if c == nil {
		return
	}
	if at := c.NextBookmark(); !at.IsZero() {
		c.wakeAt(at, now)
	}
}

// wakeAt wakes the watcher no later than the time. It keeps an earlier timer, because
// resetting it for every message costs more than one needless wake-up.
func (c *clock) wakeAt(at, now time.Time) {
	if c.timerAt.After(now) && !c.timerAt.After(at) {
		return
	}
	c.timerAt = at
	if c.timer == nil {
		c.timer = time.AfterFunc(at.Sub(now), c.wake)
	} else {
		c.timer.Reset(at.Sub(now))
	}
}

func (c *clock) stop() {
	if c != nil && c.timer != nil {
		c.timer.Stop()
	}
}
