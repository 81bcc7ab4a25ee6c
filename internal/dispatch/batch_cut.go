package dispatch

import "github.com/fanoutd/fanoutd/internal/object"

// batchCut decides where a message ends. The caller offers events in order. The cut takes
// them until the message would exceed its limit, and then goes back to the end of the last
// revision that fits as a whole. It splits a revision only if that alone exceeds the limit,
// and takes a single event whatever its size.
type batchCut struct {
	limit int

	taken   int             // number of events in the message
	bytes   int             // their size
	upto    object.Revision // the position after the message, if no further event is taken
	partial bool            // the message ends inside a revision
	full    bool            // an event was offered and not taken

	current  object.Revision // the revision of the last event
	previous struct {        // the message as it was before current began
		taken, bytes int
		upto         object.Revision
	}
}

// take offers the next event and reports whether it was taken. If not, the message ends,
// and the fields describe it.
func (c *batchCut) take(revision object.Revision, size int) bool {
	if revision != c.current {
		c.previous.taken, c.previous.bytes, c.previous.upto = c.taken, c.bytes, c.upto
		c.current = revision
	}
	if c.taken > 0 && c.bytes+size > c.limit {
		c.full = true
		if c.previous.taken > 0 {
			c.taken, c.bytes, c.upto = c.previous.taken, c.previous.bytes, c.previous.upto
		} else {
			c.upto, c.partial = c.previous.upto, true
		}
		return false
	}
	c.taken++
	c.bytes += size
	c.upto = revision
	return true
}

// takeAlone offers an event that does not belong together with any other.
func (c *batchCut) takeAlone(size int) bool { return c.take(c.current+1, size) }

// after returns the cursor of a watcher after the message, and how many events of the next
// revision it has sent. cursor and sent are the values before the message.
func (c *batchCut) after(cursor object.Revision, sent int) (object.Revision, int) {
	if c.partial {
		return cursor, sent + c.taken
	}
	return c.upto, 0
}
