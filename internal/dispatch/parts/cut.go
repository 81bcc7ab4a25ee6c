package parts

import "github.com/fanoutd/fanoutd/internal/object"

// Cut decides where a message ends. The caller offers events in order. The cut takes
// events until the next one would exceed the limit. If that happens inside a revision, the
// cut drops the events of this revision that it has taken. It splits a revision only if that
// revision alone exceeds the limit. It always takes the first event, whatever its size.
type Cut struct {
	Limit int

	Taken   int             // number of events in the message
	Bytes   int             // size of the taken events
	UpTo    object.Revision // the position after the message, unless another event is taken
	Partial bool            // the message ends inside a revision
	HasMore bool            // an event was offered and not taken

	Current  object.Revision // the revision of the event that was offered last
	previous struct {        // the values for a message that ends before the current revision
		taken, bytes int
		upTo         object.Revision
	}
}

// Take offers the next event and reports whether the event was taken. If the event was not
// taken, the message ends and the fields describe the message.
func (c *Cut) Take(revision object.Revision, size int) bool {
	if revision != c.Current {
		c.previous.taken, c.previous.bytes, c.previous.upTo = c.Taken, c.Bytes, c.UpTo
		c.Current = revision
	}
	if c.Taken > 0 && c.Bytes+size > c.Limit {
		c.HasMore = true
		if c.previous.taken > 0 {
			c.Taken, c.Bytes, c.UpTo = c.previous.taken, c.previous.bytes, c.previous.upTo
		} else {
			c.UpTo, c.Partial = c.previous.upTo, true
		}
		return false
	}
	c.Taken++
	c.Bytes += size
	c.UpTo = revision
	return true
}

// TakeAlone offers an event as if it had a revision of its own, so the message may end before
// or after the event.
func (c *Cut) TakeAlone(size int) bool { return c.Take(c.Current+1, size) }

// Advance returns the new values of Reader.After and Reader.Skip after the message. The
// arguments are the old values.
func (c *Cut) Advance(after object.Revision, skip int) (object.Revision, int) {
	if c.Partial {
		return after, skip + c.Taken
	}
	return c.UpTo, 0
}
