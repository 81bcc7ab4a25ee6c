package dispatch

import (
	"container/heap"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// streamClock knows when the watches of a stream end, when their bookmarks are due and when their
// batch delays are over. It has one timer. Only the worker uses it.
type streamClock struct {
	lastBookmark     time.Time // see StreamConfig.LastBookmark
	lastBookmarkDone bool      // the last bookmarks are due

	timer  *time.Timer // makes the task of the stream ready; nil: never set
	fireAt time.Time   // the time for which the timer was last set; zero: never set

	due dueHeap

	interval time.Duration // between two looks for silent watches; 0: none
	nextTick time.Time     // when to look for silent watches
}

// addInterval makes the clock look for bookmarks as often as the watches of the cursor need.
func (k *streamClock) addInterval(c *cursor, now time.Time) {
	interval := c.tickInterval()
	if interval == 0 {
		return
	}
	c.timing.Postpone(now)
	if k.interval == 0 || interval < k.interval {
		k.interval = interval
		if next := now.Add(interval); k.nextTick.Before(now) || next.Before(k.nextTick) {
			k.nextTick = next
		}
	}
}

// fire does what is due.
func (k *streamClock) fire(s *Stream, now time.Time) {
	for len(k.due) > 0 && !now.Before(k.due[0].at) {
		next := k.due[0]
		k.due.remove(1)
		s.do(next)
	}
	if k.interval > 0 && !now.Before(k.nextTick) {
		// The watch with the shortest interval may have ended.
		k.interval = s.tickInterval()
		k.nextTick = now.Add(k.interval)
		if c := s.latest; s.solo && c != nil && !c.timing.IsSilent(now) {
			k.nextTick = c.timing.sentAny.Add(k.interval)
		} else {
			s.tick()
		}
	}
	if !k.lastBookmark.IsZero() && !k.lastBookmarkDone && !now.Before(k.lastBookmark) {
		k.lastBookmarkDone = true
		s.tick()
	}
}

// tickInterval returns streamClock.interval for the watches that go on.
func (s *Stream) tickInterval() (shortest time.Duration) {
	for _, res := range s.resources {
		for _, c := range res.cursors {
			if interval := c.tickInterval(); interval > 0 && (shortest == 0 || interval < shortest) {
				shortest = interval
			}
		}
	}
	return shortest
}

// tickInterval returns the time between two looks at the watches of the cursor, or 0 if they get no
// bookmarks. The watches of a stream get their bookmarks together, so the stream looks twice in an
// interval.
func (c *cursor) tickInterval() time.Duration {
	switch {
	case c.timing == nil || c.timing.bookmarkInterval == 0:
		return 0
	case c.stream.solo:
		return c.timing.bookmarkInterval
	}
	return max(c.timing.bookmarkInterval/2, time.Millisecond)
}

// setTimer makes the task of the stream ready when something is due, or earlier. It keeps a timer that
// fires earlier, because resetting the timer for each message costs more than one needless run of the
// task.
func (k *streamClock) setTimer(s *Stream, now time.Time) {
	at := k.next(s)
	if at.IsZero() || k.fireAt.After(now) && !k.fireAt.After(at) {
		return
	}
	k.fireAt = at
	if k.timer == nil {
		k.timer = time.AfterFunc(at.Sub(now), s.task.Ready)
	} else {
		k.timer.Reset(at.Sub(now))
	}
}

func (k *streamClock) stop() {
	if k.timer != nil {
		k.timer.Stop()
	}
}

// next returns when something is due, or zero.
func (k *streamClock) next(s *Stream) time.Time {
	var at time.Time
	earliest := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if len(k.due) > 0 {
		earliest(k.due[0].at)
	}
	if s.watches > 0 {
		if k.interval > 0 {
			earliest(k.nextTick)
		}
		if !k.lastBookmarkDone {
			earliest(k.lastBookmark)
		}
	}
	return at
}

// recordSent records that a message was sent for the watches of the cursor.
func (c *cursor) recordSent(h *object.Header, now time.Time) {
	if c.timing == nil {
		return
	}
	c.timing.RecordSent(h, now)
	if c.timing.isOld(h.Age) {
		c.retrySoon(now)
	}
}

// retrySoon makes the next bookmark of the cursor due soon.
func (c *cursor) retrySoon(now time.Time) {
	c.timing.RetrySoon(now)
	if k := &c.stream.clock; now.Add(bookmarkRetry).Before(k.nextTick) {
		k.nextTick = now.Add(bookmarkRetry)
	}
}

// tick makes bookmarks due when the bound has reached the position of the latest round.
func (s *Stream) tick() {
	for _, res := range s.resources {
		r := res.rounds
		r.mu.Lock()
		res.tick = new(r.position)
		r.mu.Unlock()
	}
}

// addBookmarks adds bookmarks for the watches that were silent, or that get their last one. Each
// entry is for all watches of a resource.
func (s *Stream) addBookmarks(now time.Time) {
	for _, res := range s.resources {
		if res.tick != nil {
			res.addBookmarks(now)
		}
	}
}

func (res *streamResource) addBookmarks(now time.Time) {
	s := res.stream
	bound := res.bound()
	if bound.Epoch == res.tick.Epoch && bound.Revision < res.tick.Revision {
		res.rounds.awaitBound(res)
		return
	}
	source := res.dispatcher.feeds.Config.Source
	following, advance := source.Following(), false
	var due []*cursor
	left := s.room() - entryBytes
	again := false
	ahead := s.clock.interval // a watch gets its bookmark if it would be silent for too long at the next look
	if s.solo {
		ahead = 0
	}
	for _, c := range res.cursors {
		last := s.clock.lastBookmarkDone && !c.sentLast && c.state == cursorLive
		periodic := c.state == cursorLive && c.timing.IsSilent(now.Add(ahead))
		switch {
		case !last && !periodic:
			continue
		case c.isBehind() || c.place > 0 && !c.hasAllUpTo(bound):
			again = again || last // it gets its last bookmark after its events
			if last && c.place > 0 {
				c.group.leave(c) // the stream reads them, and then goes on here
				c.mark()
			}
			continue
		case !last && !following:
			// The client should notice the silence, take the server for dead and try another one.
			// It gets its last bookmark even then.
			c.retrySoon(now)
			continue
		}
		if left -= idBytes * len(c.watches); left < 0 && len(s.response.Entries)+len(due) > 0 {
			again = true
			continue
		}
		advance = advance || !last
		c.sentLast = c.sentLast || last
		due = append(due, c)
	}
	if !again {
		res.tick = nil
	}
	if advance {
		source.Advance() // so that the next bookmark has a newer position
	}
	if len(due) > 0 {
		res.addBookmark(due, bound, now)
	}
}

// addBookmark adds a bookmark with the bound for the watches of cursors that have sent everything
// up to the bound.
func (res *streamResource) addBookmark(cursors []*cursor, bound object.Position, now time.Time) {
	h := object.Header{Kind: object.Bookmark, Position: bound, Age: res.dispatcher.feeds.StatedAge(now)}
	var watches []*StreamWatch
	for _, c := range cursors {
		watches = append(watches, c.watches...)
		c.After = max(c.After, bound.Revision)
		c.resume = bound
		c.spoke = true
		c.recordSent(&h, now)
	}
	e := Entry{IDs: idsOf(watches), Batch: &feed.Batch{Message: feed.Message{Header: h}}, cursors: cursors}
	e.Dispatcher = res.dispatcher
	res.stream.add(e, 0)
}

// due is what a stream has to do at a time: end a watch, or go on with a cursor. A function would say
// the same, but cost an allocation for each watch whose events wait for a batch delay.
type due struct {
	at     time.Time
	place  *int32       // where the place in the heap is recorded; 0: not in the heap
	watch  *StreamWatch // nil: see cursor
	ending *Ending      // of the watch
	cursor *cursor      // its events have waited, or its watches have waited to share another one
}

func (s *Stream) do(d due) {
	switch c := d.cursor; {
	case d.watch != nil:
		s.endNow(d.watch, d.ending)
	case d.place == &c.delayed:
		s.candidates = append(s.candidates, c)
	default:
		c.mark()
		c.share()
	}
}

// dueHeap has what is due, the next one first. Each watch and each cursor knows its places, so that
// it leaves the heap when it ends, however late it was due. It implements [heap.Interface].
type dueHeap []due

// add adds something that is due. It does not call [heap.Push], which would allocate.
func (h *dueHeap) add(d due) {
	*h = append(*h, d)
	last := len(*h) - 1
	h.place(last)
	heap.Fix(h, last)
}

// remove removes what is at a place. Place 0 has nothing.
func (h *dueHeap) remove(place int32) {
	if place > 0 {
		heap.Remove(h, int(place-1))
	}
}

// place records the place of what is at an index. Places count from 1.
func (h dueHeap) place(i int) { *h[i].place = int32(i + 1) }

// Len implements [heap.Interface].
func (h dueHeap) Len() int { return len(h) }

// Less implements [heap.Interface].
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

// Swap implements [heap.Interface].
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h.place(i)
	h.place(j)
}

// Push implements [heap.Interface]. Nobody calls it; see add.
func (h *dueHeap) Push(any) { panic("a heap of times has no Push") }

// Pop implements [heap.Interface]. It drops the last element.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	*(*h)[last].place = 0
	(*h)[last] = due{}
	if *h = (*h)[:last]; last == 0 {
		*h = nil // the memory of what many watches needed once
	}
	return nil
}
