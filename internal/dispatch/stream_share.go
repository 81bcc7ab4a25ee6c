package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

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
	k := shareKey{stream: c.stream, latest: c.Latest, everyEvent: c.EveryEvent}
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
	if c.group.shared == nil || c.stream.solo {
		return // it is the only cursor of the group, or of its stream
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

// unshare forgets a cursor that is closed. Those that wait for its batch delay look for another one now.
func (c *cursor) unshare() {
	k := c.shareKey()
	if c.group.shared[k] != c {
		return
	}
	delete(c.group.shared, k)
	if !c.awaited {
		return // very many cursors of the group may close
	}
	for other := c.group.cursors.first; other != nil; other = other.next {
		if other.delayed > 0 && other.shareKey() == k {
			c.stream.clock.due.remove(other.delayed)
			c.stream.candidates = append(c.stream.candidates, other)
		}
	}
}

// shareCandidates moves the watches of each candidate to the shared cursor, if neither of the two
// has an event before it. The worker calls it while no response waits to be sent, so all messages
// of both are counted. Candidates that have to wait for a batch delay are left out until then, so a
// run costs nothing for them.
func (s *Stream) shareCandidates(now time.Time) {
	kept := s.candidates[:0]
	for _, c := range s.candidates {
		if !s.tryShare(c, now) {
			kept = append(kept, c)
		}
	}
	clear(s.candidates[len(kept):])
	if s.candidates = kept; len(kept) == 0 {
		s.candidates = nil
	}
}

// tryShare reports whether shareCandidates need not try the cursor again.
func (s *Stream) tryShare(c *cursor, now time.Time) bool {
	if c.state != cursorLive || c.delayed > 0 {
		return true // it becomes a candidate again when it is live, or when the delay is over
	}
	shared := c.sharedOrSelf()
	switch {
	case shared == c, c.isHeld():
		return true
	case shared.isHeld():
		until, _ := shared.timing.HeldUntil(now)
		s.clock.due.add(due{at: until, place: &c.delayed, cursor: c})
		shared.awaited = true
		return true
	case c.isBehind() || shared.isBehind() || c.Epoch != shared.Epoch:
		return false
	}
	shared.take(c)
	s.closeCursor(c)
	return true
}

// take moves the watches of another cursor to this one. Both have sent everything up to the bound.
func (c *cursor) take(other *cursor) {
	c.After = max(c.After, other.After)
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

// join has watches that have joined a live cursor at once, and have got no message yet. Their first
// messages come before all further ones of the cursor.
type join struct {
	cursor  *cursor
	watches []*StreamWatch
	resume  bool            // the watches resume at the revision after, and get a REPLAY without events; otherwise they begin now
	after   object.Revision // with resume
	at      object.Revision // up to here, the cursor has sent everything
	asOf    time.Time       // the watches then have everything that the store had at this time
}

// join lets a watch share a cursor from its beginning, and reports whether there is such a cursor:
// one that is live and has sent everything that the watch does not want, or one that is about to
// begin at the same place.
func (s *Stream) join(w *StreamWatch, g *group, b catchup.Begin, o *Options) bool {
	if s.solo || b.Kind == catchup.BeginFromSnapshot || b.Exact > 0 || s.endAll != nil || g.dispatcher().stopped.Load() {
		return false
	}
	k := keyOf(s, o)
	asOf := g.dispatcher().feeds.Config.Source.Confirmed() // read before the bound
	if b.Kind == catchup.BeginFromPosition {
		b.Needed = max(b.Needed, g.dispatcher().feeds.Config.Source.State().Revision())
	}
	if c := g.sharedBy(k); c != nil && s.canJoin(c, b) {
		s.addJoin(c, w, b, asOf)
	} else if c = s.latest; c != nil && c.group == g && c.shareKey() == k && c.beginsLike(b) {
		c.After, c.Needed = max(c.After, b.Position.Revision), max(c.Needed, b.Needed)
		c.resume = c.At()
		c.addJoined(w)
	} else {
		return false
	}
	return true
}

// addJoined adds a watch that has joined the feed.
func (c *cursor) addJoined(w *StreamWatch) {
	c.entered++
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	w.messages, w.bytes = -c.messages, -c.bytes
	w.cursor.Store(c)
	c.addWatch(w)
}

// beginsLike reports whether the cursor has made no message yet and begins now, as the watch does,
// or resumes at the position of the watch.
func (c *cursor) beginsLike(b catchup.Begin) bool {
	return c.state == cursorSettles && !c.spoke && c.Step == catchup.FirstStep[b.Kind] && c.Epoch == b.Position.Epoch &&
		(b.Kind == catchup.BeginFromNow || c.After == b.Position.Revision)
}

// canJoin reports whether the cursor has sent everything up to the beginning of the watch, and
// nothing after it that the watch needs. While Serve sends a response, its messages are not counted
// yet.
func (s *Stream) canJoin(c *cursor, b catchup.Begin) bool {
	bound := c.group.rounds.newestBound()
	if s.unsent || s.more || c.isBehind() || c.Epoch != b.Position.Epoch || bound.Epoch != c.Epoch || bound.Revision < b.Needed {
		return false
	}
	if b.Kind == catchup.BeginFromNow {
		return true
	}
	v := c.Feed.View.Load()
	if b.Position.Revision > bound.Revision || !c.dispatcher().feeds.Config.Source.State().CanReplay(b.Position) || !v.Covers(b.Position) {
		return false
	}
	first, ok := v.Next(b.Position.Revision)
	return !ok || first > bound.Revision
}

// addJoin adds a watch to a live cursor. Watches that join one after another share their first
// messages.
func (s *Stream) addJoin(c *cursor, w *StreamWatch, b catchup.Begin, asOf time.Time) {
	c.After = max(c.After, c.group.rounds.bound.Revision)
	c.addJoined(w)
	w.joining = true
	j := join{cursor: c, resume: b.Kind == catchup.BeginFromPosition, at: c.After, asOf: asOf}
	if j.resume {
		j.after = b.Position.Revision
	}
	if n := len(s.joins); n > 0 {
		if last := &s.joins[n-1]; last.cursor == c && last.resume == j.resume && last.after == j.after && last.at == j.at {
			last.watches = append(last.watches, w)
			return
		}
	}
	j.watches = []*StreamWatch{w}
	s.joins = append(s.joins, j)
}

// addJoins adds the first messages of the watches that have joined a cursor. It returns false if
// they do not all fit.
func (s *Stream) addJoins(now time.Time) (all bool) {
	for i := range s.joins {
		j := &s.joins[i]
		for len(j.watches) > 0 {
			fit := min(len(j.watches), (s.room()-2*entryBytes)/(2*idBytes))
			if fit <= 0 {
				if len(s.response.Entries) > 0 {
					s.joins = append([]join(nil), s.joins[i:]...)
					return false
				}
				fit = 1
			}
			s.addFirst(j, j.watches[:fit], now)
			j.watches = j.watches[fit:]
		}
	}
	s.joins = nil
	return true
}

// addFirst adds the first messages of watches that have joined a cursor, except those that have
// ended.
func (s *Stream) addFirst(j *join, watches []*StreamWatch, now time.Time) {
	c := j.cursor
	var open []*StreamWatch
	for _, w := range watches {
		w.joining = false
		if !w.hasEnded() {
			open = append(open, w)
		}
	}
	if len(open) == 0 {
		return
	}
	ids, age := idsOf(open), feed.StatedAge(j.asOf, now)
	var first []feed.Message
	if j.resume {
		r := catchup.Reader{Feed: c.Feed, Epoch: c.Epoch, After: j.after}
		first = r.EmptyReplay(j.at, j.asOf)
	} else {
		at := object.Position{Epoch: c.Epoch, Revision: j.at}
		first = []feed.Message{{Header: object.Header{Kind: object.Bookmark, Position: at, Age: age}}}
	}
	for i, m := range first {
		s.add(Entry{IDs: ids, Dispatcher: c.dispatcher(), Batch: &feed.Batch{Message: m}, First: i == 0, cursor: c, joined: open}, 0)
	}
	if c.timing != nil && c.timing.isOld(age) {
		c.retrySoon(now)
	}
}
