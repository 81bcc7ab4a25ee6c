package dispatch

import "github.com/fanoutd/fanoutd/internal/object"

// cut decides where a message ends. Events are offered to it in order; it takes
// them until the message would exceed its limit, and then goes back to the last
// revision that is in it as a whole. Only a revision that alone is over the limit
// is split, and a single event is taken whatever its size.
type cut struct {
	limit int

	taken   int             // events in the message
	bytes   int             // their size
	upto    object.Revision // the last revision that is complete, if the message ends here
	partial bool            // the message ends inside a revision
	full    bool            // something was offered that the message does not have

	current  object.Revision // the revision of the last event
	previous struct {        // the message as it was before current began
		taken, bytes int
		upto         object.Revision
	}
}

// take offers the next event and reports whether it was taken. After false the
// cut is made: taken, bytes, upto and partial say where.
func (c *cut) take(at object.Revision, size int) bool {
	if at != c.current {
		c.previous.taken, c.previous.bytes, c.previous.upto = c.taken, c.bytes, c.upto
		c.current = at
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
	c.upto = at
	return true
}

// after returns where who is told the message is behind it, who was at a cursor and had
// been told some of the events behind it.
func (c *cut) after(cursor object.Revision, sent int) (object.Revision, int) {
	if c.partial {
		return cursor, sent + c.taken
	}
	return c.upto, 0
}

// takeAlone is take for an event that belongs together with no other.
func (c *cut) takeAlone(size int) bool { return c.take(c.current+1, size) }
