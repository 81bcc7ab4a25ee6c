package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// begin starts a watch on the worker. The watch has joined the feed of the group.
func (s *Stream) begin(w *StreamWatch, g *group, b catchup.Begin, o *Options, now time.Time) {
	s.leaveGroup()
	s.watches++
	if s.join(w, g, b, o) {
		return
	}
	c := newCursor(s, w, o)
	c.Reader, c.group = catchup.NewReader(g.feed, b, o.Latest, o.EveryEvent), g
	c.entered = 1
	c.resume = c.At()
	res := s.resourceOf(g)
	res.add(c)
	s.latest = c
	s.mu.Lock()
	w.cursor.Store(c)
	s.mu.Unlock()
	switch {
	case s.endAll != nil:
		s.endCursor(c, s.endAll)
	case c.dispatcher().stopped.Load():
		res.endStopped()
	case c.Step == catchup.StepSnapshot:
		s.queueCatchUp(c)
	default:
		if c.Step == catchup.StepResume {
			c.Needed = max(c.Needed, c.dispatcher().feeds.Config.Source.State().Revision())
		}
		s.settle(c)
	}
	s.clock.addInterval(c, now)
}

// settle makes the worker begin or end the catch-up of a cursor: with the BOOKMARK of a watch that
// begins now, with a short REPLAY from the log, or with SYNCED.
func (s *Stream) settle(c *cursor) {
	c.state = cursorSettles
	s.settling = append(s.settling, c)
}

// maxPartBytes is the size from which a response gets no more parts, and limits the REPLAYs that
// the worker sends. The last part may be as large as a message, because watches of both methods
// share parts, and smaller ones would need more retained states. Live events wait for at most one
// response with parts.
const maxPartBytes = 64 << 10

// addSettling adds what begins and ends catch-ups to the response.
func (s *Stream) addSettling(now time.Time) {
	before := s.used
	kept := s.settling[:0]
	for i, c := range s.settling {
		if s.used-before >= maxPartBytes || s.room() <= 0 {
			kept = append(kept, s.settling[i:]...)
			break
		}
		if s.addSettlingOf(c, now) {
			kept = append(kept, c)
		}
	}
	clear(s.settling[len(kept):])
	s.settling = kept
}

// addSettlingOf reports whether the cursor still settles. If so, it waits for a later bound, or for
// more room.
func (s *Stream) addSettlingOf(c *cursor, now time.Time) (still bool) {
	defer c.recovered()
	if c.state != cursorSettles {
		return false
	}
	switch c.Step {
	case catchup.StepNow:
		if !c.isReached(c.After) {
			return true
		}
		c.Step = catchup.StepLive
		s.addMessage(c, &feed.Batch{Message: c.Bookmark()}, now)
		s.goLive(c)
	case catchup.StepCatchUp:
		if !c.isReached(c.After) {
			return true
		}
		s.addMessage(c, &feed.Batch{Message: c.Synced()}, now)
		s.goLive(c)
	case catchup.StepLive:
		s.goLive(c) // it has got the events that the log did not have
	default:
		return s.addReplay(c, now)
	}
	return false
}

// isReached reports whether the bound has reached a revision. It is true if the epoch of the cursor
// is over. If it is false, the stream runs again when there is a later bound.
func (c *cursor) isReached(revision object.Revision) bool {
	if c.stream.solo {
		return true // there is no other watch that must not be ahead
	}
	bound := c.resource.rounds.newestBound()
	if bound.Epoch == c.Epoch && bound.Revision >= revision {
		return true
	}
	if state := c.dispatcher().feeds.Config.Source.State(); bound.Epoch != c.Epoch && state.Position().Epoch != c.Epoch {
		return true
	}
	c.resource.rounds.awaitBound(c.resource)
	return false
}

// addReplay adds a whole REPLAY from the log, if it is short. Otherwise Serve makes the catch-up.
// addReplay returns true if the cursor waits for a later bound or for more room.
func (s *Stream) addReplay(c *cursor, now time.Time) bool {
	asOf := c.dispatcher().feeds.Config.Source.Confirmed()
	state := c.dispatcher().feeds.Config.Source.State()
	if s.solo || c.Step != catchup.StepResume || c.Exact > 0 || !state.CanReplay(c.At()) {
		s.queueCatchUp(c)
		return false
	}
	if !c.isReached(max(c.Needed, c.After)) {
		return true
	}
	bound := c.resource.rounds.bound.Revision
	v := c.Feed.View.Load()
	if c.resource.rounds.bound.Epoch != c.Epoch || !c.InLog(v) || c.Latest && !v.Distinct(c.After) {
		s.queueCatchUp(c)
		return false
	}
	n := v.Size(c.After, 0, bound)
	if n > maxPartBytes {
		s.queueCatchUp(c)
		return false
	}
	if n+4*entryBytes+3*c.entrySize(0) > s.room() && len(s.response.Entries) > 0 {
		return true
	}
	for _, m := range c.WholeReplay(v, bound, asOf) {
		s.addMessage(c, &feed.Batch{Message: m}, now)
	}
	s.goLive(c)
	return false
}

// goLive makes a cursor live. The feed may have events for it already.
func (s *Stream) goLive(c *cursor) {
	c.state = cursorLive
	c.mark()
	c.share()
	if s.solo && s.clock.lastBookmarkDone && !c.sentLast {
		s.tick()
	}
}
