package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

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
func (s *Stream) join(w *StreamWatch, g *group, b Begin, o *Options) bool {
	if s.solo != nil || b.Kind == BeginFromSnapshot || b.Exact > 0 || s.endAll != nil || g.feed.dispatcher.hasStopped() {
		return false
	}
	k := keyOf(s, o)
	asOf := g.feed.dispatcher.cfg.Source.Confirmed() // read before the bound
	if b.Kind == BeginFromPosition {
		b.Needed = max(b.Needed, g.feed.dispatcher.cfg.Source.State().Revision())
	}
	if c := g.sharedBy(k); c != nil && s.canJoin(c, b) {
		s.addJoin(c, w, b, asOf)
	} else if c = s.latest; c != nil && c.group == g && c.shareKey() == k && c.beginsLike(b) {
		c.after, c.needed = max(c.after, b.Position.Revision), max(c.needed, b.Needed)
		c.resume = c.at()
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
func (c *cursor) beginsLike(b Begin) bool {
	return c.state == cursorSettles && !c.spoke && c.step == firstStep[b.Kind] && c.epoch == b.Position.Epoch &&
		(b.Kind == BeginFromNow || c.after == b.Position.Revision)
}

// canJoin reports whether the cursor has sent everything up to the beginning of the watch, and
// nothing after it that the watch needs. While a response waits to be sent, its messages are not
// counted yet.
func (s *Stream) canJoin(c *cursor, b Begin) bool {
	bound := c.group.rounds.newestBound()
	if s.unsent || s.more || c.isBehind() || c.epoch != b.Position.Epoch || bound.Epoch != c.epoch || bound.Revision < b.Needed {
		return false
	}
	if b.Kind == BeginFromNow {
		return true
	}
	v := c.feed.view.Load()
	if b.Position.Revision > bound.Revision || b.Position.Revision < c.dispatcher().cfg.Source.State().Replayable() || !v.covers(b.Position) {
		return false
	}
	first, ok := v.next(b.Position.Revision)
	return !ok || first > bound.Revision
}

// addJoin adds a watch to a live cursor. Watches that join one after another share their first
// messages.
func (s *Stream) addJoin(c *cursor, w *StreamWatch, b Begin, asOf time.Time) {
	c.after = max(c.after, c.group.rounds.bound.Revision)
	c.addJoined(w)
	j := join{cursor: c, resume: b.Kind == BeginFromPosition, at: c.after, asOf: asOf}
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
		if !w.hasEnded() {
			open = append(open, w)
		}
	}
	if len(open) == 0 {
		return
	}
	ids, age := idsOf(open), StatedAge(j.asOf, now)
	add := func(h object.Header, first bool) {
		s.add(Entry{IDs: ids, Dispatcher: c.dispatcher(), Batch: &Batch{Message: Message{Header: h}}, First: first, cursor: c, joined: open}, 0)
	}
	at := object.Position{Epoch: c.epoch, Revision: j.at}
	if j.resume {
		add(object.Header{Kind: object.CatchUpBegin, CatchUp: object.Replay, Position: object.Position{Epoch: c.epoch, Revision: j.after}}, true)
		add(object.Header{Kind: object.Synced, Position: at, Age: age}, false)
	} else {
		add(object.Header{Kind: object.Bookmark, Position: at, Age: age}, true)
	}
	if c.timing != nil && c.timing.isOld(age) {
		c.retrySoon(now)
	}
}
