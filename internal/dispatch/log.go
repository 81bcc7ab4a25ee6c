package dispatch

import (
	"sort"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Segments of a log begin small, because most feeds are those of single keys and
// see few events, and double up to a size at which a full one is a good write to
// a socket. Guesses, to be measured with the load tool.
const (
	minSegmentBytes   = 1 << 10
	maxSegmentBytes   = 64 << 10
	minSegmentEntries = 8
	maxSegmentEntries = 256
)

// segment is a run of encoded events in one piece of memory. Its writer fills it
// from the front; what a view shows of it is never written again. Its slices are
// made once with their final length, so that their headers never change while
// somebody reads them.
type segment struct {
	bytes   []byte
	entries []entry

	// What follows belongs to the writer until the segment is sealed, that is,
	// until a view shows a segment behind it.
	used int // bytes
	n    int // entries

	feed       *feed
	prev, next *segment // in the order of the budget
}

// entry is one event in a segment. It begins where the one before it ends.
type entry struct {
	at      object.Revision
	end     int32
	key     uint32        // a hash of the key: two events with different ones are of different keys
	arrived time.Duration // when the change came from the store; see Dispatcher.began
}

func newSegment(f *feed, previous *segment, size int) *segment {
	bytes, entries := minSegmentBytes, minSegmentEntries
	if previous != nil {
		bytes = min(2*len(previous.bytes), maxSegmentBytes)
		entries = min(2*len(previous.entries), maxSegmentEntries)
	}
	return &segment{bytes: make([]byte, max(bytes, size)), entries: make([]entry, entries), feed: f}
}

// add appends an encoded event and reports whether it had room.
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

// start returns where in the bytes entry i begins.
func (s *segment) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(s.entries[i-1].end)
}

// view is the log of a feed at one moment, frozen. It has every event of the
// feed's interest after the position.
type view struct {
	after    object.Position
	segments []*segment
	last     int // entries shown of the last segment
}

// shown returns how many entries the view has of segment i.
func (v *view) shown(i int) int {
	if i == len(v.segments)-1 {
		return v.last
	}
	return v.segments[i].n
}

// before reports whether all events of the view come before or at the cursor.
func (v *view) before(cursor object.Revision) bool {
	n := len(v.segments)
	return n == 0 || v.segments[n-1].entries[v.last-1].at <= cursor
}

// distinct reports whether the events after the cursor are of different keys, all
// of them, so that there is nothing to merge. It may say no where they are.
func (v *view) distinct(cursor object.Revision) bool {
	var first uint32
	var seen map[uint32]bool
	n := 0
	for i := len(v.segments) - 1; i >= 0; i-- {
		entries := v.segments[i].entries[:v.shown(i)]
		for j := len(entries) - 1; j >= 0; j-- {
			if entries[j].at <= cursor {
				return true
			}
			// One event is the usual case and needs no map.
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

// read returns the events after the cursor as they are sent, leaving out the
// first skip of them, how the message ends, and the first of them.
func (v *view) read(cursor object.Revision, skip, limit int) (pieces [][]byte, end cut, first entry) {
	end = cut{limit: limit, upto: cursor}
	si := sort.Search(len(v.segments), func(i int) bool {
		return v.segments[i].entries[v.shown(i)-1].at > cursor
	})
	if si == len(v.segments) {
		return nil, end, entry{}
	}
	ei := sort.Search(v.shown(si), func(i int) bool { return v.segments[si].entries[i].at > cursor })
	for skip > 0 && si < len(v.segments) {
		step := min(skip, v.shown(si)-ei)
		skip -= step
		if ei += step; ei == v.shown(si) {
			si, ei = si+1, 0
		}
	}

	// First decide how many events to take, then slice: the decision may go back.
	type place struct{ segment, entry int }
	from := place{si, ei}
	if si < len(v.segments) {
		first = v.segments[si].entries[ei]
	}
walk:
	for ; si < len(v.segments); si, ei = si+1, 0 {
		s := v.segments[si]
		for ; ei < v.shown(si); ei++ {
			if !end.take(s.entries[ei].at, int(s.entries[ei].end)-s.start(ei)) {
				break walk
			}
		}
	}
	for left := end.taken; left > 0; from = (place{from.segment + 1, 0}) {
		s := v.segments[from.segment]
		n := min(left, v.shown(from.segment)-from.entry)
		begin, to := s.start(from.entry), int(s.entries[from.entry+n-1].end)
		pieces = append(pieces, s.bytes[begin:to:to])
		left -= n
	}
	return pieces, end, first
}
