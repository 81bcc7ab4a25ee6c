package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/work"
)

// SoloSink is the sink of a stream with one watch. Each response that it gets has one message at
// most, and an end. While the watch needs nothing but the batches of its group, the worker sends them
// with SendBatch.
type SoloSink interface {
	StreamSink

	// Size returns the size of a batch as the sink sends it.
	Size(b *feed.Batch) int

	// TakesBatch reports whether SendBatch may be called now. If not, the sink calls
	// [Stream.Ready] when it has room.
	TakesBatch() bool

	// SendBatch sends a batch from the worker and must not wait, because thousands of other watches
	// wait for the same worker. The revision before is that of the message before. An error ends
	// [Stream.Serve] with that error.
	SendBatch(b *feed.Batch, before object.Revision, now time.Time) error

	// CountSent counts the messages of n sinks that have sent the batch with SendBatch. These sinks
	// belong to one feed and one worker. The worker calls CountSent of only one of them.
	CountSent(b *feed.Batch, n int, now time.Time)

	// Prefetch reads the memory that SendBatch will read; see group.prefetch. It must not wait or
	// change anything. The result has no meaning.
	Prefetch() int
}

// joinGroup makes the cursor of a stream with one watch a member of its group, if the watch needs
// nothing but its batches.
func (s *Stream) joinGroup() {
	c := s.latest
	if s.solo == nil || c == nil || c.place > 0 || c.isBehind() || s.hasWork() {
		return
	}
	c.group.join(c)
	s.response, s.settling = Response{}, nil // the watch may wait for long
}

// hasAllUpTo reports whether a member has got everything up to a position that was dispatched. The
// group may not have sent its next batch yet.
func (c *cursor) hasAllUpTo(bound object.Position) bool {
	v := c.Feed.View.Load()
	return c.Epoch == bound.Epoch && c.InLog(v) && v.EndsAt(c.After)
}

// offer sends a batch of the group to a member, if the batch is what comes next. It reports whether
// the sink has sent the batch, and whether the cursor is still a member. If not, its stream reads it.
func (m *member) offer(b *feed.Batch, size int, now time.Time) (sent, stays bool) {
	defer func() {
		if p := recover(); p != nil {
			sent, stays = false, false
			m.cursor.group.hasLeft(m.cursor)
			m.stream.Abort(work.Panicked(p))
		}
	}()
	c, s := m.cursor, m.stream
	if c.has(b) {
		return false, true
	}
	if _, delayed := c.timing.HeldUntil(now); !delayed && c.wants(b) && m.sink.TakesBatch() {
		if before, ok := s.noteBatch(c, b, size); ok {
			c.After, c.Skip = b.End.Advance(c.After, c.Skip)
			c.recordSent(&b.Header, now)
			if err := m.sink.SendBatch(b, before, now); err != nil {
				c.group.hasLeft(c)
				s.Abort(err)
				return false, false
			}
			return true, true
		}
	}
	c.group.hasLeft(c)
	c.mark()
	return false, false
}

// noteBatch notes that a batch is sent to a member, before the client can report that it has
// applied it. It returns the revision of the message before, and false if nothing may be sent any
// more.
func (s *Stream) noteBatch(c *cursor, b *feed.Batch, size int) (before object.Revision, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.draining {
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

// wants reports whether a batch of the group is what a member needs next.
func (c *cursor) wants(b *feed.Batch) bool {
	return c.Epoch == b.Header.Position.Epoch && b.Follows(c.After, c.Skip) && (!c.Latest || !b.SplitsRevision() && b.Distinct())
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
