package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// clock says when a watcher has to speak though nothing happens, and when to be
// silent though something does. A watcher whose options want neither never looks
// at it.
type clock struct {
	timer *time.Timer // nil until there is something to wait for
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

func (c *clock) due(o *Options) reason {
	switch {
	case !o.LastBookmark.IsZero() && !c.last && !time.Now().Before(o.LastBookmark):
		return farewell
	case o.BookmarkInterval > 0 && time.Since(c.spoke) >= o.BookmarkInterval:
		return silence
	}
	return notDue
}

// note takes down that a message is on its way.
func (c *clock) note(o *Options, kind object.MessageKind) {
	if o.BookmarkInterval > 0 || o.BatchDelay > 0 {
		c.spoke = time.Now()
	}
	if kind == object.Live {
		c.live = c.spoke
	}
}

// hold returns a channel to wait for before live events may be sent again, or nil.
func (c *clock) hold(o *Options) <-chan time.Time {
	if o.BatchDelay == 0 {
		return nil
	}
	wait := o.BatchDelay - time.Since(c.live)
	if !o.LastBookmark.IsZero() {
		wait = min(wait, time.Until(o.LastBookmark))
	}
	if wait <= 0 {
		return nil
	}
	return c.after(wait)
}

// alarm returns a channel to wait for before the next bookmark is due, or nil.
func (c *clock) alarm(o *Options) <-chan time.Time {
	var wait time.Duration
	switch {
	case o.BookmarkInterval > 0:
		wait = o.BookmarkInterval - time.Since(c.spoke)
		if !c.last && !o.LastBookmark.IsZero() {
			wait = min(wait, time.Until(o.LastBookmark))
		}
	case !c.last && !o.LastBookmark.IsZero():
		wait = time.Until(o.LastBookmark)
	default:
		return nil
	}
	return c.after(wait)
}

func (c *clock) after(d time.Duration) <-chan time.Time {
	if c.timer == nil {
		c.timer = time.NewTimer(d)
	} else {
		c.timer.Reset(d)
	}
	return c.timer.C
}

func (c *clock) stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
}
