package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/work"
)

// MemberBatch is the next batch of a group, as one member of the group sends it.
type MemberBatch struct {
	Batch      *feed.Batch
	Dispatcher *Dispatcher     // whose resource
	IDs        *IDs            // of the watches; nil for a stream with one watch
	Before     object.Revision // of the message before
}

// onlyCursor returns the cursor of the stream if it has exactly one, and otherwise nil.
func (s *Stream) onlyCursor() (only *cursor) {
	if s.hasDirects() {
		return nil
	}
	for _, res := range s.resources {
		switch {
		case len(res.cursors) == 0:
		case len(res.cursors) > 1 || only != nil:
			return nil
		default:
			only = res.cursors[0]
		}
	}
	return only
}

// joinGroup makes the only cursor of the stream a member of its group, if its watches need nothing but
// the batches of the group. No other watch of the stream needs the same revisions in the same response.
func (s *Stream) joinGroup() {
	c := s.onlyCursor()
	if c == nil || c.place > 0 || c.isBehind() || s.hasWork() || !s.solo && !c.hasAllUpTo(c.At()) {
		return
	}
	c.group.join(c)
	s.response, s.settling = Response{}, nil // the watch may wait for long
}

// leaveGroup makes a member an ordinary cursor again, because the stream gets another watch.
func (s *Stream) leaveGroup() {
	c := s.onlyCursor()
	if c == nil || c.place == 0 {
		return
	}
	c.group.leave(c)
	if !c.hasAllUpTo(c.resource.rounds.newestBound()) {
		c.mark()
	}
}

// hasAllUpTo reports whether a member has got everything up to a position that was dispatched. The
// group may not have sent its next batch yet.
func (c *cursor) hasAllUpTo(bound object.Position) bool {
	v := c.Feed.View.Load()
	return c.Epoch == bound.Epoch && c.InLog(v) && v.EndsAt(c.After)
}

// offered is the result of offering a batch to a member.
type offered struct {
	watches int  // to which the sink has sent the batch
	bytes   int  // of its message
	stays   bool // the cursor is still a member; otherwise its stream reads it
}

// offer sends a batch of the group to a member, if the batch is what comes next.
func (m *member) offer(b *feed.Batch, now time.Time) (o offered) {
	defer func() {
		if p := recover(); p != nil {
			o = offered{}
			m.cursor.group.hasLeft(m.cursor)
			m.stream.Abort(work.Panicked(p))
		}
	}()
	c, s := m.cursor, m.stream
	if c.has(b) {
		return offered{stays: true}
	}
	if _, delayed := c.timing.HeldUntil(now); !delayed && !s.unsent && c.wants(b) && m.sink.TakesBatch() {
		if before, ok := s.noteBatch(c, b); ok {
			c.After, c.Skip = b.End.Advance(c.After, c.Skip)
			c.recordSent(&b.Header, now)
			next := MemberBatch{Batch: b, Dispatcher: c.dispatcher(), Before: before}
			if !s.solo {
				next.IDs = c.list()
			}
			bytes, err := m.sink.SendBatch(next, now)
			if err != nil {
				c.group.hasLeft(c)
				s.Abort(err)
				return offered{}
			}
			return offered{len(c.watches), bytes, true}
		}
	}
	c.group.hasLeft(c)
	c.mark()
	return offered{}
}

// noteBatch notes that a batch is sent to a member, before the client can report that it has
// applied it. It returns the revision of the message before, and false if the stream has ended, or has
// to do something else first, such as to end the watch.
func (s *Stream) noteBatch(c *cursor, b *feed.Batch) (before object.Revision, ok bool) {
	size := s.sizeOf(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.inbox) > 0 {
		return 0, false
	}
	before = c.sentPosition.Revision
	c.noteSent(b, size, nil)
	return before, true
}

// has reports whether a member has got all events of a batch of the group already.
func (c *cursor) has(b *feed.Batch) bool {
	return c.Epoch == b.Header.Position.Epoch && b.IsBefore(c.After, c.Skip)
}

// wants reports whether a batch of the group is what a member needs next. A stream that may have several
// watches cuts a revision that exceeds a response by itself.
func (c *cursor) wants(b *feed.Batch) bool {
	s := c.stream
	return c.Epoch == b.Header.Position.Epoch && b.Follows(c.After, c.Skip) && (!c.Latest || !b.SplitsRevision() && b.Distinct()) &&
		(s.solo || !b.SplitsRevision() && c.entrySize(b.Size()) <= s.responseBytes)
}

// addBatch adds the next batch of a stream with one watch to the response. It reports whether the log
// has more.
func (s *Stream) addBatch(c *cursor, now time.Time) (more bool) {
	defer c.recovered()
	if c.state != cursorLive || c.holds(now) {
		return false
	}
	b, ok := c.NextBatch(now)
	switch {
	case !ok:
		s.fallBehind(c, now)
	case b != nil:
		c.Pass(b)
		s.addMessage(c, b, now)
		return b.More
	}
	return false
}
