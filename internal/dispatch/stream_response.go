package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// makeResponse makes the next response from everything that waits. It returns false if there is
// nothing to send.
//
// A response has answers, then live events, then what begins and ends the catch-ups of watches. The
// parts of catch-ups that Serve has made are in responses of their own, which alternate with those
// that have live events. So a live event waits for at most one response with parts.
func (s *Stream) makeResponse(now time.Time) bool {
	r := &s.response
	clear(r.Entries)
	*r = Response{Entries: r.Entries[:0]}
	s.used = 0
	s.addAnswers()
	if !s.addJoins(now) {
		return true // nothing comes before the first message of a watch
	}
	inSequence := s.more
	if s.directs.first && !inSequence {
		s.addDirect(now)
	}
	if !s.partsNext || inSequence || !s.addParts(now) {
		s.addLive(now)
		s.addAnswers() // the ends of watches that have fallen behind
		if !r.More {
			s.addSettling(now)
			s.addBookmarks(now)
			s.addDirect(now)
			if len(r.Entries) == 0 && !inSequence {
				s.addParts(now)
			}
		}
		s.partsNext = s.parts != nil
	}
	return len(r.Entries) > 0 || inSequence && !r.More
}

// room returns how many bytes fit into the response.
func (s *Stream) room() int { return s.responseBytes - s.used }

// add adds an entry with n bytes of events to the response.
func (s *Stream) add(e Entry, n int) {
	s.used += entrySize(e.IDs.Len(), n)
	s.response.Entries = append(s.response.Entries, e)
}

// addMessage adds a message for the watches of a cursor.
func (s *Stream) addMessage(c *streamCursor, b *Batch, now time.Time) {
	e := Entry{IDs: c.list(), Batch: b, First: !c.spoke, cursor: c}
	e.Dispatcher = c.dispatcher
	s.add(e, b.size())
	c.spoke = true
	c.resume = b.Header.Position
	c.recordSent(&b.Header, now)
}

// size returns the size of the events.
func (m *Message) size() int {
	n := 0
	for _, piece := range m.Events {
		n += len(piece)
	}
	return n
}

// noteSent notes that a message was sent: to the watches that have joined the cursor, or if there are
// none, to all its watches. The caller holds the mutex of the stream.
func (c *streamCursor) noteSent(b *Batch, joined []*StreamWatch) {
	c.sentPosition = b.Header.Position
	if joined != nil {
		for _, w := range joined {
			w.messages++
		}
		return
	}
	c.messages++
	c.bytes += int64(b.size())
	switch b.Header.Kind {
	case object.CatchUpBegin:
		c.isLive = false
	case object.Synced, object.Bookmark, object.Live:
		c.isLive = true
	}
}
