package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// clock schedules the bookmarks and the batch delay of a watcher. Callers pass the time,
// because reading it costs more than everything the clock does. A nil clock schedules
// nothing.
type clock struct {
	interval time.Duration // see [Options.BookmarkInterval]
	delay    time.Duration // see [Options.BatchDelay]
	end      time.Time     // see [Options.LastBookmark]
	wake     func()        // readies the watcher's task

	timer *time.Timer // nil until there is something to wait for
	rings time.Time   // when the timer fires; zero: never
	spoke time.Time   // of the last message
	live  time.Time   // of the last live message
	last  bool        // the last bookmark has been sent
}

// newClock returns the clock of a watcher, or nil if it needs none.
func newClock(o *Options, w *Watcher) *clock {
	if o.BookmarkInterval == 0 && o.BatchDelay == 0 && o.LastBookmark.IsZero() {
		return nil
	}
	c := &clock{interval: o.BookmarkInterval, delay: o.BatchDelay, end: o.LastBookmark, wake: w.task.Ready}
	if c.interval > 0 {
		// A client would take a longer silence for a dead server.
		c.delay = min(c.delay, c.interval)
	}
	return c
}

// reason is why a bookmark is due.
type reason uint8

const (
	notDue   reason = iota
	silence         // no message for an interval
	farewell        // the watch is about to end
)

// due returns why a bookmark is due, if it is.
func (c *clock) due(now time.Time) reason {
	switch {
	case c == nil:
	case c.atEnd(now):
		return farewell
	case c.interval > 0 && now.Sub(c.spoke) >= c.interval:
		return silence
	}
	return notDue
}

// atEnd reports whether the last bookmark is due.
func (c *clock) atEnd(now time.Time) bool { return !c.end.IsZero() && !c.last && !now.Before(c.end) }

// needsEveryMessage reports whether the clock has to know of each message. A last bookmark,
// which nearly all watchers have, does not need it, and so costs live messages nothing.
func (c *clock) needsEveryMessage() bool { return c != nil && (c.interval > 0 || c.delay > 0) }

// sent records a message.
func (c *clock) sent(kind object.MessageKind, now time.Time) {
	if c == nil {
		return
	}
	c.spoke = now
	switch kind {
	case object.Live:
		c.live = now
	case object.Bookmark:
		c.last = c.last || c.atEnd(now)
	}
}

// holds reports whether live events have to wait for the batch delay. If so, the timer
// wakes the watcher afterwards.
func (c *clock) holds(now time.Time) bool {
	if c == nil || c.delay == 0 {
		return false
	}
	until := c.live.Add(c.delay)
	if !c.end.IsZero() && c.end.Before(until) {
		until = c.end
	}
	if !now.Before(until) {
		return false
	}
	c.wakeAt(until, now)
	return true
}

// setTimer wakes the watcher when the next bookmark is due.
func (c *clock) setTimer(now time.Time) {
	if c == nil {
		return
	}
	var at time.Time
	if c.interval > 0 {
		at = c.spoke.Add(c.interval)
	}
	if !c.last && !c.end.IsZero() && (at.IsZero() || c.end.Before(at)) {
		at = c.end
	}
	if !at.IsZero() {
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
