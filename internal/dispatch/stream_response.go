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
	if s.isFull() {
		return true
	}
	if !s.addJoins(now) {
		return true // nothing comes before the first message of a watch
	}
	inSequence := s.more
	if s.directs != nil && s.directs.first && !inSequence {
		s.addDirect(now)
	}
	if !s.partsNext || inSequence || !s.addParts(now) {
		s.addLive(now)
		if !s.isFull() {
			s.addAnswers() // the ends of watches that have fallen behind
		}
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

// isFull reports whether a stream with one watch has a message in the response. Its sink sends each
// response as a message of its own.
func (s *Stream) isFull() bool { return s.solo != nil && len(s.response.Entries) > 0 }

// room returns how many bytes fit into the response.
func (s *Stream) room() int {
	if s.isFull() {
		return 0
	}
	return s.responseBytes - s.used
}

// add adds an entry with n bytes of events to the response.
func (s *Stream) add(e Entry, n int) {
	s.used += entrySize(e.IDs.Len(), n)
	s.response.Entries = append(s.response.Entries, e)
}

// addMessage adds a message for the watches of a cursor.
func (s *Stream) addMessage(c *cursor, b *Batch, now time.Time) {
	e := Entry{IDs: c.list(), Batch: b, First: !c.spoke, cursor: c}
	e.Dispatcher = c.dispatcher()
	s.add(e, b.size())
	c.spoke = true
	c.resume = b.Header.Position
	c.recordSent(&b.Header, now)
}

// sizeOf returns the size of a message as ListWatchers shows it. The watches of a stream share
// messages, so only the size of their events is theirs.
func (s *Stream) sizeOf(b *Batch) int {
	if s.solo != nil {
		return s.solo.Size(b)
	}
	return b.size()
}

// noteSent notes that a message was sent: to the watches that have joined the cursor, or if there are
// none, to all its watches. It took a number of bytes. The caller holds the mutex of the stream.
func (c *cursor) noteSent(b *Batch, size int, joined []*StreamWatch) {
	c.sentPosition, c.isSending = b.Header.Position, false
	if joined != nil {
		for _, w := range joined {
			w.messages++
		}
		return
	}
	c.messages++
	c.bytes += int64(size)
	switch b.Header.Kind {
	case object.CatchUpBegin:
		c.isLive = false
	case object.Synced, object.Bookmark, object.Live:
		c.isLive = true
	}
}
