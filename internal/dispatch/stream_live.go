package dispatch

import (
	"math"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// addLive adds live events to the response. The events of one revision of a dispatcher leave
// together, if they fit into a response. Otherwise they leave in consecutive responses.
func (s *Stream) addLive(now time.Time) {
	if s.solo {
		for _, res := range s.resources {
			res.keep(func(c *cursor) bool { return s.addBatch(c, now) })
		}
		return
	}
	for _, res := range s.resources {
		if res.cut > 0 { // the events of an earlier response continue before all others
			res.addLive(now)
			if s.response.More {
				return
			}
		}
	}
	for _, res := range s.resources {
		res.addLive(now)
		if s.response.More {
			return
		}
	}
}

// addLive chooses a cut, and adds the events of all marked cursors up to the cut. The cut is the
// bound if everything up to the bound fits. Otherwise it is the highest revision up to which
// everything fits. If the next revision does not fit into an empty response, it is the cut, and
// addLive adds as many of its events as fit.
//
// The dispatcher may publish newer views meanwhile, which may not have the events any more. So
// addLive reads one view of each cursor.
func (res *streamResource) addLive(now time.Time) {
	s := res.stream
	bound, unfinished := res.rounds.bound, res.cut
	res.keep(func(c *cursor) bool { return res.canRead(c, bound, now) })
	defer res.forgetViews()
	if res.cut = 0; len(res.marked) == 0 {
		return
	}
	upTo := bound.Revision
	if unfinished > 0 {
		upTo = min(upTo, unfinished)
	}
	cut, whole := upTo, true
	if !res.fits(upTo) {
		if cut = res.search(upTo); cut == 0 {
			if len(s.response.Entries) > 0 && unfinished == 0 {
				return // the revision gets a response of its own
			}
			cut, whole = res.nextRevision(), false
		}
	}
	if cut < unfinished {
		res.cut = unfinished
	}
	for _, c := range res.marked {
		if !res.read(c, cut, whole, now) {
			res.cut = max(cut, unfinished)
			break
		}
	}
	s.response.More = res.cut > 0
	res.keep(func(c *cursor) bool {
		return c.state == cursorLive && (cut < bound.Revision || c.isBefore(bound))
	})
}

// forgetViews drops the views of the marked cursors, which would keep dropped events in memory.
func (res *streamResource) forgetViews() {
	for _, c := range res.marked {
		c.view = nil
	}
}

// keep removes the marks of the cursors for which the function returns false.
func (res *streamResource) keep(has func(*cursor) bool) {
	kept := res.marked[:0]
	for _, c := range res.marked {
		if has(c) {
			kept = append(kept, c)
		} else {
			c.marked, c.view = false, nil
		}
	}
	clear(res.marked[len(kept):])
	res.marked = kept
}

// isBefore reports whether the cursor has not reached the position.
func (c *cursor) isBefore(p object.Position) bool {
	return c.Epoch != p.Epoch || c.After < p.Revision || c.Skip > 0
}

// canRead reports whether the log may have events of a marked cursor up to the bound, and chooses
// the view to read. If the log does not reach back to the cursor, a catch-up begins.
func (res *streamResource) canRead(c *cursor, bound object.Position, now time.Time) (ok bool) {
	defer c.recovered()
	if c.state != cursorLive {
		return false
	}
	s := res.stream
	if c.holds(now) {
		return false
	}
	// A cursor becomes live when the bound has reached it. So a different epoch is an old one.
	v := c.Feed.View.Load()
	if c.Epoch != bound.Epoch || !c.InLog(v) || c.NeedsMerge(v) && bound.Revision-c.After > maxMergedRevisions {
		s.fallBehind(c, now)
		return false
	}
	c.view = v
	return true
}

// fits reports whether the events of all marked cursors up to the revision fit into the response.
func (res *streamResource) fits(upTo object.Revision) bool {
	room := res.stream.room()
	for _, c := range res.marked {
		if n := c.waitingBytes(upTo); n > 0 {
			if room -= c.entrySize(n); room < 0 {
				return false
			}
		}
	}
	return true
}

// waitingBytes returns the size of the events up to the revision.
func (c *cursor) waitingBytes(upTo object.Revision) int {
	if upTo <= c.After {
		return 0
	}
	return c.view.Size(c.After, c.Skip, upTo)
}

// search returns the highest revision up to which everything fits. It returns 0 if nothing fits.
func (res *streamResource) search(upTo object.Revision) object.Revision {
	low := res.nextRevision() - 1 // there is no event up to here
	none := low
	for high := upTo; low+1 < high; {
		if middle := low + (high-low)/2; res.fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	if low == none {
		return 0
	}
	return low
}

// nextRevision returns the revision of the first event of all marked cursors.
func (res *streamResource) nextRevision() object.Revision {
	next := object.Revision(math.MaxInt64)
	for _, c := range res.marked {
		if first, ok := c.view.Next(c.After); ok {
			next = min(next, first)
		}
	}
	return next
}

// read adds the events of a marked cursor up to the cut to the response. If everything does not
// fit, the argument whole is false. Then read returns false when it cannot add all events.
func (res *streamResource) read(c *cursor, cut object.Revision, whole bool, now time.Time) (all bool) {
	defer c.recovered()
	s := res.stream
	all = true
	if c.state != cursorLive || c.After >= cut {
		return all
	}
	if c.Skip > 0 {
		// The batch delay came between two parts of a revision.
		switch next, _ := c.view.Next(c.After); {
		case cut < next:
			return all
		case c.Latest:
			cut = next // later events are merged afterwards
		}
	}
	n := c.waitingBytes(cut)
	if n == 0 {
		c.After, c.Skip = cut, 0
		return all
	}
	limit := math.MaxInt
	if room := s.room(); !whole && c.entrySize(n) > room {
		if all = false; len(s.response.Entries) > 0 {
			return all
		}
		limit = max(0, room-c.entrySize(0))
	}
	if c.NeedsMerge(c.view) {
		b, ok := c.MergedBatch(cut)
		switch {
		case !ok:
			s.fallBehind(c, now)
		case b.Count > 0:
			s.addMessage(c, b, now)
		}
		return true
	}
	b := c.Feed.BatchTo(feed.Start{View: c.view, After: c.After, Skip: c.Skip}, cut, limit, now)
	if all = limit == math.MaxInt || !b.End.HasMore; all {
		c.After, c.Skip = cut, 0
	} else {
		c.After, c.Skip = b.End.Advance(c.After, c.Skip)
	}
	s.addMessage(c, b, now)
	return all
}

// maxMergedRevisions limits the work of a merge on the worker. If more revisions wait, the cursor
// gets a REPLAY, which Serve merges.
const maxMergedRevisions = 1000
