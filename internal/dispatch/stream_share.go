package dispatch

import "time"

// shareKey says which live watches of a stream share a cursor: those with the same interest, which
// the feed stands for, and the same options.
type shareKey struct {
	feed                         *feed
	latest, everyEvent           bool
	bookmarkInterval, batchDelay time.Duration
}

func (c *streamCursor) shareKey() shareKey {
	k := shareKey{feed: c.feed, latest: c.latest, everyEvent: c.everyEvent}
	if c.timing != nil {
		k.bookmarkInterval, k.batchDelay = c.timing.bookmarkInterval, c.timing.batchDelay
	}
	return k
}

// share lets other watches share a cursor that has become live. If there is such a cursor already,
// the watches move to that one later.
func (s *Stream) share(c *streamCursor) {
	k := c.shareKey()
	switch s.shared[k] {
	case nil:
		s.shared[k] = c
	case c:
	default:
		s.candidates = append(s.candidates, c)
	}
}

// unshare forgets a cursor that is closed.
func (s *Stream) unshare(c *streamCursor) {
	if c.feed == nil {
		return
	}
	if k := c.shareKey(); s.shared[k] == c {
		delete(s.shared, k)
	}
}

// shareCandidates moves the watches of each candidate to the shared cursor, if neither of the two
// has an event before it. The worker calls it while no response waits to be sent, so all messages
// of both are counted.
func (s *Stream) shareCandidates() {
	kept := s.candidates[:0]
	for _, c := range s.candidates {
		if !s.tryShare(c) {
			kept = append(kept, c)
		}
	}
	clear(s.candidates[len(kept):])
	s.candidates = kept
}

// tryShare reports whether the cursor is no candidate any more.
func (s *Stream) tryShare(c *streamCursor) bool {
	if c.state != cursorLive {
		return true // closed, or it becomes a candidate again when it is live
	}
	k := c.shareKey()
	shared := s.shared[k]
	switch {
	case shared == nil:
		s.shared[k] = c
		return true
	case shared == c:
		return true
	case c.isBehind() || shared.isBehind() || c.epoch != shared.epoch:
		return false
	}
	shared.take(c)
	s.closeCursor(c)
	return true
}

// take moves the watches of another cursor to this one. Both have sent everything up to the bound.
func (c *streamCursor) take(other *streamCursor) {
	c.cursor = max(c.cursor, other.cursor)
	if c.resume.Revision < other.resume.Revision {
		c.resume = other.resume
	}
	if c.timing != nil {
		c.timing.join(other.timing)
	}
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.sentPosition.Revision < other.sentPosition.Revision {
		c.sentPosition, c.mayHave = other.sentPosition, other.mayHave
	}
	for _, w := range other.watches {
		w.messages += other.messages - c.messages
		w.bytes += other.bytes - c.bytes
		w.cursor.Store(c)
		c.addWatch(w)
	}
	other.watches = nil
}
