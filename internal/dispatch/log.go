package dispatch

import (
	"sort"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Segments begin small, because most feeds are those of single keys and see few events.
// They double up to a size that makes a good write to a socket. The numbers are guesses.
const (
	minSegmentBytes   = 1 << 10
	maxSegmentBytes   = 64 << 10
	minSegmentEntries = 8
	maxSegmentEntries = 256
)

// segment is a run of encoded events in one piece of memory. The writer fills it from the
// front and never rewrites what a view shows. Both slices have their final length from the
// beginning, so their headers do not change while readers slice them.
type segment struct {
	bytes   []byte
	entries []entry

	// The fields below belong to the writer. Readers read n once a view shows a later
	// segment; it does not change any more.

	used int // bytes
	n    int // entries

	feed       *feed
	prev, next *segment // in the order of the budget
}

// entry describes one event in a segment. The event begins where the previous one ends.
type entry struct {
	revision object.Revision
	end      int32
	key      uint32        // hash of the object's key: events with different hashes have different keys
	arrived  time.Duration // of the change from the store; see Dispatcher.created
}

func newSegment(f *feed, previous *segment, size int) *segment {
	bytes, entries := minSegmentBytes, minSegmentEntries
	if previous != nil {
		bytes = min(2*len(previous.bytes), maxSegmentBytes)
		entries = min(2*len(previous.entries), maxSegmentEntries)
	}
	return &segment{bytes: make([]byte, max(bytes, size)), entries: make([]entry, entries), feed: f}
}

// add appends an encoded event and reports whether the segment had room.
func (s *segment) add(e entry, event []byte) bool {
	if s.n == len(s.entries) || s.used+len(event) > len(s.bytes) {
		return false
	}
	s.used += copy(s.bytes[s.used:], event)
	e.end = int32(s.used)
	s.entries[s.n] = e
	s.n++
	return true
}

// start returns the offset of entry i in the bytes.
func (s *segment) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(s.entries[i-1].end)
}

// view is the frozen log of a feed at one moment. It has every event of the feed's interest
// after the position.
type view struct {
	after    object.Position
	segments []*segment
	last     int // number of visible entries of the last segment
}

// visible returns the number of entries of segment i that the view shows.
func (v *view) visible(i int) int {
	if i == len(v.segments)-1 {
		return v.last
	}
	return v.segments[i].n
}

// endsAt reports whether the view has no event after the cursor.
func (v *view) endsAt(cursor object.Revision) bool {
	n := len(v.segments)
	return n == 0 || v.segments[n-1].entries[v.last-1].revision <= cursor
}

// find returns the segment and the entry of the first event after the cursor. If there is
// none, segment is len(v.segments).
func (v *view) find(cursor object.Revision) (segment, entry int) {
	segment = sort.Search(len(v.segments), func(i int) bool {
		return v.segments[i].entries[v.visible(i)-1].revision > cursor
	})
	if segment == len(v.segments) {
		return segment, 0
	}
	entry = sort.Search(v.visible(segment), func(i int) bool { return v.segments[segment].entries[i].revision > cursor })
	return segment, entry
}

// count returns the number of events after the cursor and the revision of the first one.
func (v *view) count(cursor object.Revision) (n int, first object.Revision) {
	si, ei := v.find(cursor)
	for i := si; i < len(v.segments); i, ei = i+1, 0 {
		if i == si {
			first = v.segments[i].entries[ei].revision
		}
		n += v.visible(i) - ei
	}
	return n, first
}

// distinct reports whether all events after the cursor have different keys, so that there
// is nothing to merge. It may return false although they have.
func (v *view) distinct(cursor object.Revision) bool {
	var first uint32
	var seen map[uint32]bool
	n := 0
	for i := len(v.segments) - 1; i >= 0; i-- {
		entries := v.segments[i].entries[:v.visible(i)]
		for j := len(entries) - 1; j >= 0; j-- {
			if entries[j].revision <= cursor {
				return true
			}
			// The common case is one event, which needs no map.
			key := entries[j].key
			switch n++; n {
			case 1:
				first = key
				continue
			case 2:
				seen = map[uint32]bool{first: true}
			}
			if seen[key] {
				return false
			}
			seen[key] = true
		}
	}
	return true
}

// read returns the encoded events after the cursor, apart from the first `skip`, as many as
// fit into a message, together with where the message ends and the entry of its first event.
func (v *view) read(cursor object.Revision, skip, limit int) (pieces [][]byte, end batchCut, first entry) {
	end = batchCut{limit: limit, upto: cursor}
	si, ei := v.find(cursor)
	if si == len(v.segments) {
		return nil, end, entry{}
	}
	for skip > 0 && si < len(v.segments) {
		step := min(skip, v.visible(si)-ei)
		skip -= step
		if ei += step; ei == v.visible(si) {
			si, ei = si+1, 0
		}
	}

	// Decide first how many events to take, then slice: the decision may go back.
	fromSegment, fromEntry := si, ei
	if si < len(v.segments) {
		first = v.segments[si].entries[ei]
	}
walk:
	for ; si < len(v.segments); si, ei = si+1, 0 {
		s := v.segments[si]
		for ; ei < v.visible(si); ei++ {
			if !end.take(s.entries[ei].revision, int(s.entries[ei].end)-s.start(ei)) {
				break walk
			}
		}
	}
	for left := end.taken; left > 0; fromSegment, fromEntry = fromSegment+1, 0 {
		s := v.segments[fromSegment]
		n := min(left, v.visible(fromSegment)-fromEntry)
		begin, to := s.start(fromEntry), int(s.entries[fromEntry+n-1].end)
		pieces = append(pieces, s.bytes[begin:to:to])
		left -= n
	}
	return pieces, end, first
}

// logBudget limits the memory of the logs of all feeds. When a new segment exceeds the
// limit, the oldest segments are dropped, whichever feed they belong to. Watchers then read
// these events from the window, if it still has them. The caller holds the dispatcher's
// mutex.
type logBudget struct {
	limit          int
	bytes          int
	evicted        int64       // number of segments dropped to make room
	touch          func(*feed) // publishes a feed when the round ends
	oldest, newest *segment
}

// add accounts for a new segment and drops the oldest ones until the budget is kept. It
// never drops the new segment.
func (b *logBudget) add(s *segment) {
	s.prev = b.newest
	if b.newest != nil {
		b.newest.next = s
	} else {
		b.oldest = s
	}
	b.newest = s
	b.bytes += len(s.bytes)
	for b.bytes > b.limit && b.oldest != s {
		// The round publishes the feed later, because it may have half a revision now.
		b.touch(b.oldest.feed)
		b.oldest.feed.forgetOldest()
		b.evicted++
	}
}

// remove returns the memory of a segment to the budget.
func (b *logBudget) remove(s *segment) {
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
