package dispatch

import "time"

// shareKey identifies the watches of a feed that share a cursor: those of one stream with the
// same options.
type shareKey struct {
	stream                       *Stream
	latest, everyEvent           bool
	bookmarkInterval, batchDelay time.Duration
}

func keyOf(s *Stream, o *Options) shareKey {
	return shareKey{s, o.Latest, o.EveryEvent, o.BookmarkInterval, o.longestBatchDelay()}
}

func (c *streamCursor) shareKey() shareKey {
	k := shareKey{stream: c.stream, latest: c.latest, everyEvent: c.everyEvent}
	if c.timing != nil {
		k.bookmarkInterval, k.batchDelay = c.timing.bookmarkInterval, c.timing.batchDelay
	}
	return k
}

// keepShared is called before the group gets another cursor. Most groups of single keys have only
// one, and need no map.
func (g *group) keepShared() {
	if g.shared != nil {
		return
	}
	g.shared = map[shareKey]*streamCursor{}
	if c := g.firstCursor; c.state == cursorLive {
		g.shared[c.shareKey()] = c
	}
}

// sharedBy returns the live cursor of the watches with the key, or nil.
func (g *group) sharedBy(k shareKey) *streamCursor {
	c := g.firstCursor
	if g.shared != nil {
		c = g.shared[k]
	}
	if c == nil || c.state != cursorLive || c.shareKey() != k {
		return nil
	}
	return c
}

// share lets other watches share a cursor that has become live. If there is such a cursor already,
// the watches move to that one later.
func (c *streamCursor) share() {
	g := c.group
	if g.shared == nil {
		return // it is the only cursor of the group
	}
	k := c.shareKey()
	switch g.shared[k] {
	case nil:
		g.shared[k] = c
	case c:
	default:
		c.stream.candidates = append(c.stream.candidates, c)
	}
}

// unshare forgets a cursor that is closed.
func (c *streamCursor) unshare() {
	if k := c.shareKey(); c.group.shared[k] == c {
		delete(c.group.shared, k)
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
	shared := c.group.shared[k]
	switch {
	case shared == nil:
		c.group.shared[k] = c
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
