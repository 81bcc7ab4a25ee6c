package dispatch

import "github.com/fanoutd/fanoutd/internal/object"

// batchCut decides where a message ends. The caller offers events in order. The cut takes
// events until the next one would exceed the limit. If that happens inside a revision, the
// cut drops the events of this revision that it has taken. It splits a revision only if that
// revision alone exceeds the limit. It always takes the first event, whatever its size.
type batchCut struct {
	limit int

	taken   int             // number of events in the message
	bytes   int             // size of the taken events
	upTo    object.Revision // the position after the message, unless another event is taken
	partial bool            // the message ends inside a revision
	hasMore bool            // an event was offered and not taken

	current  object.Revision // the revision of the event that was offered last
	previous struct {        // the values for a message that ends before the current revision
		taken, bytes int
		upTo         object.Revision
	}
}

// take offers the next event and reports whether the event was taken. If the event was not
// taken, the message ends and the fields describe the message.
func (c *batchCut) take(revision object.Revision, size int) bool {
	if revision != c.current {
		c.previous.taken, c.previous.bytes, c.previous.upTo = c.taken, c.bytes, c.upTo
		c.current = revision
	}
	if c.taken > 0 && c.bytes+size > c.limit {
		c.hasMore = true
		if c.previous.taken > 0 {
			c.taken, c.bytes, c.upTo = c.previous.taken, c.previous.bytes, c.previous.upTo
		} else {
			c.upTo, c.partial = c.previous.upTo, true
		}
		return false
	}
	c.taken++
	c.bytes += size
	c.upTo = revision
	return true
}

// takeAlone offers an event as if it had a revision of its own, so the message may end before
// or after the event.
func (c *batchCut) takeAlone(size int) bool { return c.take(c.current+1, size) }

// advance returns the new values of reader.after and reader.skip after the message. The
// arguments are the old values.
func (c *batchCut) advance(after object.Revision, skip int) (object.Revision, int) {
	if c.partial {
		return after, skip + c.taken
	}
	return c.upTo, 0
}
