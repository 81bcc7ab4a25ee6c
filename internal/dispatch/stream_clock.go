package dispatch

import (
	"container/heap"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// streamClock knows when the watches of a stream end, when their bookmarks are due and when their
// batch delays are over. It has one timer. Only the worker uses it.
type streamClock struct {
	lastBookmark     time.Time // see StreamConfig.LastBookmark
	lastBookmarkDone bool      // the last bookmarks are due

	timer taskTimer // of the task of the stream

	ends endHeap
	held []heldCursor

	interval time.Duration // between two looks for silent watches: half of the shortest bookmark interval; 0: none
	nextTick time.Time     // when to look for silent watches
}

// heldCursor is a cursor whose events wait for the batch delay.
type heldCursor struct {
	cursor *streamCursor
	until  time.Time
}

// endTime is when a watch ends.
type endTime struct {
	at     time.Time
	watch  *StreamWatch
	ending *Ending
}

// endHeap has the ends of watches, the next one first. It implements [heap.Interface].
type endHeap []endTime

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h endHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *endHeap) Push(x any)        { *h = append(*h, x.(endTime)) }
func (h *endHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = endTime{}
	*h = (*h)[:len(*h)-1]
	return last
}

func (k *streamClock) endAt(w *StreamWatch, at time.Time, e *Ending) {
	heap.Push(&k.ends, endTime{at, w, e})
}

// hold marks the cursor when its batch delay is over.
func (k *streamClock) hold(c *streamCursor, until time.Time) {
	c.held = true
	k.held = append(k.held, heldCursor{c, until})
}

// addInterval makes the clock look for bookmarks as often as the watches of the cursor need.
func (k *streamClock) addInterval(c *streamCursor, now time.Time) {
	if c.timing == nil || c.timing.bookmarkInterval == 0 {
		return
	}
	c.timing.Postpone(now)
	half := max(c.timing.bookmarkInterval/2, time.Millisecond)
	if k.interval == 0 || half < k.interval {
		k.interval = half
		if next := now.Add(half); k.nextTick.IsZero() || next.Before(k.nextTick) {
			k.nextTick = next
		}
	}
}

// fire does what is due.
func (k *streamClock) fire(s *Stream, now time.Time) {
	for len(k.ends) > 0 && !now.Before(k.ends[0].at) {
		e := heap.Pop(&k.ends).(endTime)
		if e.watch.ending.CompareAndSwap(false, true) {
			s.mu.Lock()
			s.answers.waiting++
			s.mu.Unlock()
			s.end(e.watch, e.ending)
		}
	}
	held := k.held
	k.held = k.held[:0]
	for _, h := range held {
		if now.Before(h.until) {
			k.held = append(k.held, h)
			continue
		}
		h.cursor.held = false
		h.cursor.mark()
	}
	clear(held[len(k.held):])
	if k.interval > 0 && !now.Before(k.nextTick) {
		k.nextTick = now.Add(k.interval)
		s.tick()
	}
	if !k.lastBookmark.IsZero() && !k.lastBookmarkDone && !now.Before(k.lastBookmark) {
		k.lastBookmarkDone = true
		s.tick()
	}
}

// setTimer makes the task of the stream ready when something is due.
func (k *streamClock) setTimer(s *Stream, now time.Time) {
	if at := k.next(s); !at.IsZero() {
		k.timer.set(at, now)
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
	if len(k.ends) > 0 {
		earliest(k.ends[0].at)
	}
	for _, h := range k.held {
		earliest(h.until)
	}
	if s.watches > 0 {
		earliest(k.nextTick)
		if !k.lastBookmarkDone {
			earliest(k.lastBookmark)
		}
	}
	return at
}

// recordSent records that a message was sent for the watches of the cursor.
func (c *streamCursor) recordSent(h *object.Header, now time.Time) {
	if c.timing == nil {
		return
	}
	c.timing.RecordSent(h, now)
	if c.timing.isOld(h.Age) {
		c.retrySoon(now)
	}
}

// retrySoon makes the next bookmark of the cursor due soon.
func (c *streamCursor) retrySoon(now time.Time) {
	c.timing.RetrySoon(now)
	if k := &c.stream.clock; now.Add(bookmarkRetry).Before(k.nextTick) {
		k.nextTick = now.Add(bookmarkRetry)
	}
}

// tick makes bookmarks due when the bound has reached the position of the latest round.
func (s *Stream) tick() {
	for _, src := range s.sources {
		r := src.rounds
		r.mu.Lock()
		src.tick = new(r.position)
		r.mu.Unlock()
	}
}

// addBookmarks adds bookmarks for the watches that were silent, or that get their last one. Each
// entry is for all watches of a source.
func (s *Stream) addBookmarks(now time.Time) {
	for _, src := range s.sources {
		if src.tick != nil {
			src.addBookmarks(now)
		}
	}
}

func (src *streamSource) addBookmarks(now time.Time) {
	s := src.stream
	bound := src.rounds.bound
	if bound.Epoch == src.tick.Epoch && bound.Revision < src.tick.Revision {
		src.rounds.awaitBound(src)
		return
	}
	source := src.dispatcher.cfg.Source
	following, advance := source.Following(), false
	var due []*streamCursor
	left := s.room() - entryBytes
	again := false
	for _, c := range src.cursors {
		last := s.clock.lastBookmarkDone && !c.sentLast && c.state == cursorLive
		periodic := c.state == cursorLive && c.timing.isSilent(now.Add(s.clock.interval))
		switch {
		case !last && !periodic:
			continue
		case c.isBehind():
			again = again || last // it gets its last bookmark after its events
			continue
		case !last && !following:
			// The client should notice the silence. See Watcher.bookmark.
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
		src.tick = nil
	}
	if advance {
		source.Advance() // so that the next bookmark has a newer position
	}
	if len(due) > 0 {
		src.addBookmark(due, bound, now)
	}
}

// addBookmark adds a bookmark with the bound for the watches of cursors that have sent everything
// up to the bound.
func (src *streamSource) addBookmark(cursors []*streamCursor, bound object.Position, now time.Time) {
	h := object.Header{Kind: object.Bookmark, Position: bound, Age: src.dispatcher.statedAge(now)}
	var watches []*StreamWatch
	for _, c := range cursors {
		watches = append(watches, c.watches...)
		c.cursor = max(c.cursor, bound.Revision)
		c.resume = bound
		c.spoke = true
		c.recordSent(&h, now)
	}
	e := Entry{IDs: idsOf(watches), Batch: &Batch{Message: Message{Header: h}}, cursors: cursors}
	e.Dispatcher = src.dispatcher
	src.stream.add(e, 0)
}
