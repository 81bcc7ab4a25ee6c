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

func (c *cursor) shareKey() shareKey {
	k := shareKey{stream: c.stream, latest: c.latest, everyEvent: c.everyEvent}
	if c.timing != nil {
		k.bookmarkInterval, k.batchDelay = c.timing.bookmarkInterval, c.timing.batchDelay
	}
	return k
}

// keepShared is called before the list gets another cursor. Most groups of single keys have only
// one, and need no map.
func (g *group) keepShared() {
	if g.shared != nil {
		return
	}
	g.shared = map[shareKey]*cursor{}
	if c := g.cursors.first; c.state == cursorLive {
		g.shared[c.shareKey()] = c
	}
}

// sharedBy returns the live cursor of the watches with the key, or nil.
func (g *group) sharedBy(k shareKey) *cursor {
	c := g.cursors.first
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
func (c *cursor) share() {
	if c.group.shared == nil {
		return // it is the only cursor of the group
	}
	if c.sharedOrSelf() != c {
		c.stream.candidates = append(c.stream.candidates, c)
	}
}

// sharedOrSelf returns the live cursor that the watches of a live cursor share, or will share. If there
// is none, it is the cursor itself from now on.
func (c *cursor) sharedOrSelf() *cursor {
	k := c.shareKey()
	if shared := c.group.shared[k]; shared != nil && shared.state == cursorLive {
		return shared
	}
	c.group.shared[k] = c
	return c
}

// unshare forgets a cursor that is closed.
func (c *cursor) unshare() {
	k := c.shareKey()
	shared := c.group.shared[k]
	if c.delayed > 0 {
		c.stream.dropDelayed(c, shared)
	}
	if shared == c {
		delete(c.group.shared, k)
		c.stream.tryDelayed(c)
	}
}

// shareCandidates moves the watches of each candidate to the shared cursor, if neither of the two
// has an event before it. The worker calls it while no response waits to be sent, so all messages
// of both are counted. Candidates that have to wait for a batch delay are left out until then.
func (s *Stream) shareCandidates() {
	kept := s.candidates[:0]
	for _, c := range s.candidates {
		if !s.tryShare(c) {
			kept = append(kept, c)
		}
	}
	clear(s.candidates[len(kept):])
	if s.candidates = kept; len(kept) == 0 {
		s.candidates = nil
	}
}

// tryShare reports whether shareCandidates need not try the cursor again.
func (s *Stream) tryShare(c *cursor) bool {
	if c.state != cursorLive || c.delayed > 0 {
		return true // it becomes a candidate again when it is live, or when the delay is over
	}
	shared := c.sharedOrSelf()
	switch {
	case shared == c, c.isHeld():
		return true
	case shared.isHeld():
		s.delay(c, shared)
		return true
	case c.isBehind() || shared.isBehind() || c.epoch != shared.epoch:
		return false
	}
	shared.take(c)
	s.closeCursor(c)
	return true
}

// delay makes a candidate wait until the batch delay of the shared cursor is over.
func (s *Stream) delay(c, shared *cursor) {
	if s.delayed == nil {
		s.delayed = map[*cursor][]*cursor{}
	}
	s.delayed[shared] = append(s.delayed[shared], c)
	c.delayed = int32(len(s.delayed[shared]))
}

// dropDelayed removes a candidate that waits for the shared cursor.
func (s *Stream) dropDelayed(c, shared *cursor) {
	all := s.delayed[shared]
	last := len(all) - 1
	moved := all[last]
	all[c.delayed-1], moved.delayed, c.delayed = moved, c.delayed, 0
	all[last] = nil
	if s.delayed[shared] = all[:last]; last == 0 {
		s.forgetDelayed(shared)
	}
}

// tryDelayed makes shareCandidates try the candidates again that wait for the shared cursor.
func (s *Stream) tryDelayed(shared *cursor) {
	for _, c := range s.delayed[shared] {
		c.delayed = 0
		s.candidates = append(s.candidates, c)
	}
	s.forgetDelayed(shared)
}

func (s *Stream) forgetDelayed(shared *cursor) {
	if delete(s.delayed, shared); len(s.delayed) == 0 {
		s.delayed = nil
	}
}

// shareAfterDelay makes shareCandidates try those again that had to wait for the batch delay of the
// cursor: the cursor itself, or the candidates that wait for it.
func (s *Stream) shareAfterDelay(c *cursor) {
	switch c.group.shared[c.shareKey()] {
	case nil:
	case c:
		s.tryDelayed(c)
	default:
		s.candidates = append(s.candidates, c)
	}
}

// take moves the watches of another cursor to this one. Both have sent everything up to the bound.
func (c *cursor) take(other *cursor) {
	c.after = max(c.after, other.after)
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
		c.sentPosition = other.sentPosition
	}
	for _, w := range other.watches {
		w.messages += other.messages - c.messages
		w.bytes += other.bytes - c.bytes
		w.cursor.Store(c)
		c.addWatch(w)
	}
	other.watches = nil
}
