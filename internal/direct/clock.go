package direct

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// clock says when a watcher has to speak though nothing happens, and when to be
// silent though something does.
type clock struct {
	spoke time.Time // when the watcher was last told anything
	live  time.Time // when it was last told live events
	asked time.Time // when the store was asked for the sake of a bookmark
	last  bool      // the last bookmark has been sent
}

// reason is why a bookmark is due.
type reason uint8

const (
	notDue   reason = iota
	silence         // nothing was said for an interval
	farewell        // the watch is about to end
)

// note takes down that a message is on its way.
func (c *clock) note(kind object.MessageKind) {
	c.spoke, c.asked = time.Now(), time.Time{}
	if kind == object.Live {
		c.live = c.spoke
	}
}

func (c *clock) due(o *dispatch.Options) reason {
	switch {
	case !o.LastBookmark.IsZero() && !c.last && !time.Now().Before(o.LastBookmark):
		return farewell
	case o.BookmarkInterval > 0 && time.Since(c.spoke) >= o.BookmarkInterval:
		return silence
	}
	return notDue
}

// asksAgain reports whether it is time to ask the store where it is, and takes down
// that it is asked. It is not asked more often than bookmarks are wanted.
func (c *clock) asksAgain(o *dispatch.Options) bool {
	if !c.asked.IsZero() && time.Since(c.asked) < o.BookmarkInterval {
		return false
	}
	c.asked = time.Now()
	return true
}

// holds reports whether live events have to wait for others.
func (c *clock) holds(o *dispatch.Options) bool {
	return time.Since(c.live) < o.BatchDelay && (o.LastBookmark.IsZero() || time.Now().Before(o.LastBookmark))
}

// wait returns how long there is nothing to do if nothing happens, or false for
// ever.
func (c *clock) wait(o *dispatch.Options) (time.Duration, bool) {
	var next time.Time
	at := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	switch {
	case c.holds(o):
		at(c.live.Add(o.BatchDelay))
	case o.BookmarkInterval > 0 && c.asked.IsZero():
		at(c.spoke.Add(o.BookmarkInterval))
	case o.BookmarkInterval > 0:
		at(c.asked.Add(o.BookmarkInterval))
	}
	if !c.last && !o.LastBookmark.IsZero() {
		at(o.LastBookmark)
	}
	return time.Until(next), !next.IsZero()
}
