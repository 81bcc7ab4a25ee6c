package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// clock says when a watcher has to speak though nothing happens, and when to be
// silent though something does. It is told the time, which it costs more to find out
// than all that it does. nil is that of a watcher that needs none.
type clock struct {
	interval time.Duration // see [Options.BookmarkInterval]
	delay    time.Duration // see [Options.BatchDelay]
	end      time.Time     // see [Options.LastBookmark]

	timer *time.Timer // wakes the watcher; nil until there is something to wait for
	rings time.Time   // when it does; zero: it does not
	spoke time.Time   // when the watcher was last told anything
	live  time.Time   // when it was last told live events
	last  bool        // the last bookmark has been sent
}

// newClock returns the clock for the options, or nil.
func newClock(o *Options) *clock {
	if o.BookmarkInterval == 0 && o.BatchDelay == 0 && o.LastBookmark.IsZero() {
		return nil
	}
	c := &clock{interval: o.BookmarkInterval, delay: o.BatchDelay, end: o.LastBookmark}
	if c.interval > 0 {
		// Nothing is held back for so long that it looks as if we were gone.
		c.delay = min(c.delay, c.interval)
	}
	return c
}

// reason is why a bookmark is due.
type reason uint8

const (
	notDue   reason = iota
	silence         // nothing was said for an interval
	farewell        // the watch is about to end
)

// due returns why a bookmark is due, if it is, and takes down that a farewell is said.
func (c *clock) due(now time.Time) reason {
	switch {
	case c == nil:
	case !c.end.IsZero() && !c.last && !now.Before(c.end):
		c.last = true
		return farewell
	case c.interval > 0 && now.Sub(c.spoke) >= c.interval:
		return silence
	}
	return notDue
}

// listens reports whether it matters when the watcher was told something. Nearly all
// watchers have a last bookmark, for which it does not, and so what they are told costs
// them no look at their clock.
func (c *clock) listens() bool { return c != nil && (c.interval > 0 || c.delay > 0) }

// note takes down that a message is on its way.
func (c *clock) note(kind object.MessageKind, now time.Time) {
	c.spoke = now
	if kind == object.Live {
		c.live = now
	}
}

// hold reports whether live events have to wait. Then wake is called when they need
// not any more.
func (c *clock) hold(now time.Time, wake func()) bool {
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
	c.set(until, now, wake)
	return true
}

// alarm has wake called when the next bookmark is due.
func (c *clock) alarm(now time.Time, wake func()) {
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
		c.set(at, now, wake)
	}
}

// set has wake called at a time, or before that: a watcher that is told something all
// the time would set its timer all the time, which costs more than to look once too
// often.
func (c *clock) set(at, now time.Time, wake func()) {
	if c.rings.After(now) && !c.rings.After(at) {
		return
	}
	c.rings = at
	if c.timer == nil {
		c.timer = time.AfterFunc(at.Sub(now), wake)
	} else {
		c.timer.Reset(at.Sub(now))
	}
}

func (c *clock) stop() {
	if c != nil && c.timer != nil {
		c.timer.Stop()
	}
}
