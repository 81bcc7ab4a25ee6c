package dispatch

import (
	"math"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// addLive adds live events to the response. The events of one revision of a dispatcher leave
// together, if they fit into a response. Otherwise they leave in consecutive responses.
func (s *Stream) addLive(now time.Time) {
	if s.solo != nil {
		for _, src := range s.sources {
			src.keep(func(c *cursor) bool { return s.addBatch(c, now) })
		}
		return
	}
	for _, src := range s.sources {
		if src.cut > 0 { // the events of an earlier response continue before all others
			src.addLive(now)
			if s.response.More {
				return
			}
		}
	}
	for _, src := range s.sources {
		src.addLive(now)
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
func (src *streamSource) addLive(now time.Time) {
	s := src.stream
	bound, unfinished := src.rounds.bound, src.cut
	src.keep(func(c *cursor) bool { return src.canRead(c, bound, now) })
	defer src.forgetViews()
	if src.cut = 0; len(src.marked) == 0 {
		return
	}
	upTo := bound.Revision
	if unfinished > 0 {
		upTo = min(upTo, unfinished)
	}
	cut, whole := upTo, true
	if !src.fits(upTo) {
		if cut = src.search(upTo); cut == 0 {
			if len(s.response.Entries) > 0 && unfinished == 0 {
				return // the revision gets a response of its own
			}
			cut, whole = src.nextRevision(), false
		}
	}
	if cut < unfinished {
		src.cut = unfinished
	}
	for _, c := range src.marked {
		if !src.read(c, cut, whole, now) {
			src.cut = max(cut, unfinished)
			break
		}
	}
	s.response.More = src.cut > 0
	src.keep(func(c *cursor) bool {
		return c.state == cursorLive && (cut < bound.Revision || c.isBefore(bound))
	})
}

// forgetViews drops the views of the marked cursors, which would keep dropped events in memory.
func (src *streamSource) forgetViews() {
	for _, c := range src.marked {
		c.view = nil
	}
}

// keep removes the marks of the cursors for which the function returns false.
func (src *streamSource) keep(has func(*cursor) bool) {
	kept := src.marked[:0]
	for _, c := range src.marked {
		if has(c) {
			kept = append(kept, c)
		} else {
			c.marked, c.view = false, nil
		}
	}
	clear(src.marked[len(kept):])
	src.marked = kept
}

// isBefore reports whether the cursor has not reached the position.
func (c *cursor) isBefore(p object.Position) bool {
	return c.epoch != p.Epoch || c.after < p.Revision || c.skip > 0
}

// canRead reports whether the log may have events of a marked cursor up to the bound, and chooses
// the view to read. If the log does not reach back to the cursor, a catch-up begins.
func (src *streamSource) canRead(c *cursor, bound object.Position, now time.Time) (ok bool) {
	defer c.recovered()
	if c.state != cursorLive {
		return false
	}
	s := src.stream
	if c.holds(now) {
		return false
	}
	// A cursor becomes live when the bound has reached it. So a different epoch is an old one.
	v := c.feed.view.Load()
	if c.epoch != bound.Epoch || !c.inLog(v) || c.needsMerge(v) && !c.canMerge(bound.Revision) {
		s.fallBehind(c, now)
		return false
	}
	c.view = v
	return true
}

// fits reports whether the events of all marked cursors up to the revision fit into the response.
func (src *streamSource) fits(upTo object.Revision) bool {
	room := src.stream.room()
	for _, c := range src.marked {
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
	if upTo <= c.after {
		return 0
	}
	return c.view.size(c.after, c.skip, upTo)
}

// search returns the highest revision up to which everything fits. It returns 0 if nothing fits.
func (src *streamSource) search(upTo object.Revision) object.Revision {
	low := src.nextRevision() - 1 // there is no event up to here
	none := low
	for high := upTo; low+1 < high; {
		if middle := low + (high-low)/2; src.fits(middle) {
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
func (src *streamSource) nextRevision() object.Revision {
	next := object.Revision(math.MaxInt64)
	for _, c := range src.marked {
		if first, ok := c.view.next(c.after); ok {
			next = min(next, first)
		}
	}
	return next
}

// read adds the events of a marked cursor up to the cut to the response. If everything does not
// fit, the argument whole is false. Then read returns false when it cannot add all events.
func (src *streamSource) read(c *cursor, cut object.Revision, whole bool, now time.Time) (all bool) {
	defer c.recovered()
	s := src.stream
	all = true
	if c.state != cursorLive || c.after >= cut {
		return all
	}
	if c.skip > 0 {
		// The batch delay came between two parts of a revision.
		switch next, _ := c.view.next(c.after); {
		case cut < next:
			return all
		case c.latest:
			cut = next // later events are merged afterwards
		}
	}
	n := c.waitingBytes(cut)
	if n == 0 {
		c.after, c.skip = cut, 0
		return all
	}
	limit := math.MaxInt
	if room := s.room(); !whole && c.entrySize(n) > room {
		if all = false; len(s.response.Entries) > 0 {
			return all
		}
		limit = max(0, room-c.entrySize(0))
	}
	if c.needsMerge(c.view) {
		b, ok := c.mergedBatch(cut, now)
		switch {
		case !ok:
			s.fallBehind(c, now)
		case b.Count > 0:
			s.addMessage(c, b, now)
		}
		return true
	}
	b := c.batchTo(c.view, cut, limit, now)
	if all = limit == math.MaxInt || !b.end.hasMore; all {
		c.after, c.skip = cut, 0
	} else {
		c.after, c.skip = b.end.advance(c.after, c.skip)
	}
	s.addMessage(c, b, now)
	return all
}

// batchTo returns the batch of the events up to the cut. If possible, it is one that other watches
// of the interest have sent.
func (c *cursor) batchTo(v *view, cut object.Revision, limit int, now time.Time) *Batch {
	d, f := c.dispatcher(), c.feed
	start := batchStart{v, c.after, c.skip}
	shareable := c.skip == 0 && limit == math.MaxInt
	if shareable {
		first, _ := v.next(c.after)
		if b := f.batches.findEvents(v.base.Epoch, first, v.last(cut), now); b != nil {
			return b
		}
	}
	b := newLiveBatch(start, limit, cut, d, now)
	if shareable && f.hadSeveral.Load() {
		f.keepBatch(b)
	}
	return b
}

// maxMergedRevisions limits the work of a merge on the worker. If more revisions wait, the cursor
// gets a REPLAY, which Serve merges.
const maxMergedRevisions = 1000

// canMerge reports whether the worker may merge the events up to the bound.
func (c *cursor) canMerge(bound object.Revision) bool {
	return bound-c.after <= maxMergedRevisions
}

// mergedBatch returns the merged events up to the cut, and moves the cursor to the cut. It returns
// false if the window does not have the events any more.
func (c *cursor) mergedBatch(cut object.Revision, now time.Time) (*Batch, bool) {
	c.mergeTo = cut
	p := c.mergedPart(math.MaxInt)
	c.mergeTo = 0
	if p.lost {
		return nil, false
	}
	c.after = cut
	return &Batch{made: now, end: p.end, Message: c.message(object.Live, p.payload())}, true
}
