package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// clock says when a watcher has to speak though nothing happens, and when to be
// silent though something does. It is told the time, which it costs more to find out
// than all that it does.
type clock struct {
	timer *time.Timer // wakes the watcher; nil until there is something to wait for
	rings time.Time   // when it does; zero: it does not
	spoke time.Time   // when the watcher was last told anything
	live  time.Time   // when it was last told live events
	last  bool        // the last bookmark has been sent
}

// reason is why a bookmark is due.
type reason uint8

const (
	notDue   reason = iota
	silence         // nothing was said for an interval
	farewell        // the watch is about to end
)

func (c *clock) due(o *Options, now time.Time) reason {
	switch {
	case !o.LastBookmark.IsZero() && !c.last && !now.Before(o.LastBookmark):
		return farewell
	case o.BookmarkInterval > 0 && now.Sub(c.spoke) >= o.BookmarkInterval:
		return silence
	}
	return notDue
}

// note takes down that a message is on its way.
func (c *clock) note(o *Options, kind object.MessageKind, now time.Time) {
	if o.BookmarkInterval > 0 || o.BatchDelay > 0 {
		c.spoke = now
	}
	if kind == object.Live {
		c.live = c.spoke
	}
}

// hold reports whether live events have to wait. Then wake is called when they need
// not any more.
func (c *clock) hold(o *Options, now time.Time, wake func()) bool {
	if o.BatchDelay == 0 {
		return false
	}
	until := c.live.Add(o.BatchDelay)
	if !o.LastBookmark.IsZero() && o.LastBookmark.Before(until) {
		until = o.LastBookmark
	}
	if !now.Before(until) {
		return false
	}
	c.set(until, now, wake)
	return true
}

// alarm has wake called when the next bookmark is due.
func (c *clock) alarm(o *Options, now time.Time, wake func()) {
	var at time.Time
	if o.BookmarkInterval > 0 {
		at = c.spoke.Add(o.BookmarkInterval)
	}
	if !c.last && !o.LastBookmark.IsZero() && (at.IsZero() || o.LastBookmark.Before(at)) {
		at = o.LastBookmark
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
	if c.timer != nil {
		c.timer.Stop()
	}
}
