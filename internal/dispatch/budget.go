package dispatch

// budget bounds the memory of the logs of all feeds together. When it is
// exceeded, the oldest segment of all goes: its events can be made again from the
// window while that has them. It belongs to whoever holds the dispatcher's mutex.
type budget struct {
	limit          int
	bytes          int
	evicted        int64       // counts the segments that were taken away to make room
	touch          func(*feed) // has a feed published when the round is over
	oldest, newest *segment
}

// add accounts for a new segment and takes the oldest ones from their feeds
// until the budget is kept. The new segment itself stays.
func (b *budget) add(s *segment) {
	s.prev = b.newest
	if b.newest != nil {
		b.newest.next = s
	} else {
		b.oldest = s
	}
	b.newest = s
	b.bytes += len(s.bytes)
	for b.bytes > b.limit && b.oldest != s {
		// Not published here: the feed may have half a revision.
		b.touch(b.oldest.feed)
		b.oldest.feed.forgetOldest()
		b.evicted++
	}
}

// remove gives back what a segment holds.
func (b *budget) remove(s *segment) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		b.oldest = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		b.newest = s.prev
	}
	s.prev, s.next = nil, nil
	b.bytes -= len(s.bytes)
}
