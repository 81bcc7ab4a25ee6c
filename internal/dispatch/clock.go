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

	spoke time.Time // of the last message
	live  time.Time // of the last live message
	last  bool      // the last bookmark has been sent
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
	case s.interval > 0 && now.Sub(s.spoke) >= s.interval:
		return Silence
	}
	return NotDue
}

// atEnd reports whether the last bookmark is due.
func (s *Schedule) atEnd(now time.Time) bool { return !s.end.IsZero() && !s.last && !now.Before(s.end) }

// Sent records a message.
func (s *Schedule) Sent(kind object.MessageKind, now time.Time) {
	s.spoke = now
	switch kind {
	case object.Live:
		s.live = now
	case object.Bookmark:
		s.last = s.last || s.atEnd(now)
	}
}

// Postpone moves a bookmark that is due after a silence by an interval, because the watcher
// cannot send one now.
func (s *Schedule) Postpone(now time.Time) { s.spoke = now }

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
		at = s.spoke.Add(s.interval)
	}
	if !s.last && !s.end.IsZero() && (at.IsZero() || s.end.Before(at)) {
		at = s.end
	}
	return at
}

// clock wakes a watcher of a queue according to its schedule. A nil clock schedules nothing.
type clock struct {
	Schedule
	wake  func()      // readies the watcher's task
	timer *time.Timer // nil until there is something to wait for
	rings time.Time   // when the timer fires; zero: never
}

// newClock returns the clock of a watcher, or nil if it needs none.
func newClock(o *Options, w *Watcher) *clock {
	if o.BookmarkInterval == 0 && o.BatchDelay == 0 && o.LastBookmark.IsZero() {
		return nil
	}
	return &clock{Schedule: NewSchedule(o), wake: w.task.Ready}
}

// needsEveryMessage reports whether the clock has to know of each message. A last bookmark,
// which nearly all watchers have, does not need it, and so costs live messages nothing.
func (c *clock) needsEveryMessage() bool { return c != nil && (c.interval > 0 || c.delay > 0) }

// due is [Schedule.Due].
func (c *clock) due(now time.Time) Due {
	if c == nil {
		return NotDue
	}
	return c.Due(now)
}

// sent is [Schedule.Sent].
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

// wakeAt wakes the watcher at a time or earlier. A busy watcher would set its timer all the
// time, which costs more than waking once too often.
func (c *clock) wakeAt(at, now time.Time) {
	if c.rings.After(now) && !c.rings.After(at) {
		return
	}
	c.rings = at
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
