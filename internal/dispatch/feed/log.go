package feed

import (
	"container/list"
	"math"
	"sort"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/parts"
	"github.com/fanoutd/fanoutd/internal/object"
)

// The first segment of a log is small, because most interests are single keys, which get few
// events. Each further segment has twice the size of the one before, up to a good size for a
// write to a socket. The numbers are guesses.
const (
	minSegmentBytes   = 1 << 10
	maxSegmentBytes   = 64 << 10
	minSegmentEntries = 8
	maxSegmentEntries = 256
)

// segment is a run of encoded events in one piece of memory. The writer, which holds the
// mutex of the Feeds, fills it from the front and never rewrites what a view shows. Both
// slices have their final length from the beginning, so their headers do not change while
// readers slice them.
type segment struct {
	bytes   []byte
	entries []entry

	// Only the writer uses the fields below. But once the log has a newer segment, the number n
	// is final, and readers use it, too.

	used int // number of bytes that have events
	n    int // number of entries that have events

	feed  *Feed
	place *list.Element // in logBudget.segments
}

// entry describes one event in a segment. The event begins where the previous event ends.
type entry struct {
	revision object.Revision
	end      int32         // offset in the bytes of the segment
	key      uint32        // hash of the object's key: different hashes mean different keys
	Arrived  time.Duration // when the change came from the store, counted from Feeds.Created
}

func newSegment(f *Feed, previous *segment, size int) *segment {
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

// View is the frozen log of a feed at one moment.
type View struct {
	base          object.Position // the view has every event of the feed's interest after this position
	segments      []*segment
	visibleInLast int // number of visible entries of the last segment

	dropped *droppedLog // set by Feed.restart; nil: no log was dropped
}

// droppedLog describes a log that Feed.restart has dropped.
type droppedLog struct {
	end  object.Position // the log was complete up to here
	last object.Revision // and had no event after this revision
}

// SkipDropped returns the position at which a watch at the given position continues after
// Feed.restart has dropped the log. A watch that had delivered every event of the dropped
// log continues at its end. Any other watch continues at its own position. So all
// watches that had delivered everything need the same catch-up, although their last messages
// have different positions.
func (v *View) SkipDropped(at object.Position) object.Position {
	if d := v.dropped; d != nil && at.Epoch == d.end.Epoch && d.last <= at.Revision && at.Revision < d.end.Revision {
		return d.end
	}
	return at
}

// lastRevision returns a revision after which the view has no event.
func (v *View) lastRevision() object.Revision {
	if n := len(v.segments); n > 0 {
		return v.segments[n-1].entries[v.visibleInLast-1].revision
	}
	return v.base.Revision
}

// visible returns the number of entries of segment i that the view shows.
func (v *View) visible(i int) int {
	if i == len(v.segments)-1 {
		return v.visibleInLast
	}
	return v.segments[i].n
}

// EndsAt reports whether the view has no event after the revision.
func (v *View) EndsAt(after object.Revision) bool {
	n := len(v.segments)
	return n == 0 || v.segments[n-1].entries[v.visibleInLast-1].revision <= after
}

// find returns the segment and the entry of the first event after the revision. If there is no
// such event, the segment is len(v.segments).
func (v *View) find(after object.Revision) (segment, entry int) {
	segment = sort.Search(len(v.segments), func(i int) bool {
		return v.segments[i].entries[v.visible(i)-1].revision > after
	})
	if segment == len(v.segments) {
		return segment, 0
	}
	entry = sort.Search(v.visible(segment), func(i int) bool { return v.segments[segment].entries[i].revision > after })
	return segment, entry
}

// Covers reports whether the view has every event after the position.
func (v *View) Covers(at object.Position) bool {
	return v.base.Epoch == at.Epoch && v.base.Revision <= at.Revision
}

// Next returns the revision of the first event after the revision. It returns false if there is
// none.
func (v *View) Next(after object.Revision) (first object.Revision, ok bool) {
	si, ei := v.find(after)
	if si == len(v.segments) {
		return 0, false
	}
	return v.segments[si].entries[ei].revision, true
}

// count returns the number of events after the revision and the revision of the first one.
func (v *View) count(after object.Revision) (n int, first object.Revision) {
	si, ei := v.find(after)
	for i := si; i < len(v.segments); i, ei = i+1, 0 {
		if i == si {
			first = v.segments[i].entries[ei].revision
		}
		n += v.visible(i) - ei
	}
	return n, first
}

// Distinct reports whether all events after the revision have different keys. If so, there is
// nothing to merge. It compares hashes, so it may return false although all keys are
// different.
func (v *View) Distinct(after object.Revision) bool {
	seen := map[uint32]bool{}
	for i := len(v.segments) - 1; i >= 0; i-- {
		entries := v.segments[i].entries[:v.visible(i)]
		for j := len(entries) - 1; j >= 0; j-- {
			if entries[j].revision <= after {
				return true
			}
			if seen[entries[j].key] {
				return false
			}
			seen[entries[j].key] = true
		}
	}
	return true
}

// Size returns the number of bytes of the events after one revision, up to and including another.
// It leaves out the given number of events.
func (v *View) Size(after object.Revision, skip int, to object.Revision) int {
	si, ei := v.find(after)
	si, ei = v.skip(si, ei, skip)
	lastSegment, lastEntry := v.find(to)
	n := 0
	for ; si < len(v.segments) && si <= lastSegment; si, ei = si+1, 0 {
		end := v.visible(si)
		if si == lastSegment {
			end = lastEntry
		}
		if ei < end {
			n += int(v.segments[si].entries[end-1].end) - v.segments[si].start(ei)
		}
	}
	return n
}

// last returns the revision of the last event up to and including the revision to. The view
// must have such an event.
func (v *View) last(to object.Revision) object.Revision {
	si, ei := v.find(to)
	if ei == 0 {
		si--
		ei = v.visible(si)
	}
	return v.segments[si].entries[ei-1].revision
}

// skip returns the segment and the entry that is the given number of events after another one.
func (v *View) skip(segment, entry, events int) (int, int) {
	for events > 0 && segment < len(v.segments) {
		step := min(events, v.visible(segment)-entry)
		events -= step
		if entry += step; entry == v.visible(segment) {
			segment, entry = segment+1, 0
		}
	}
	return segment, entry
}

// AllRevisions is the argument of View.Read for all events of the view.
const AllRevisions object.Revision = math.MaxInt64

// Read returns the events of the next message. The message begins after a revision, leaves
// out the given number of events, and ends at the limit or before the first event after the
// revision to. Read returns the bytes of the events, where the message ends, and the entry of
// the first event.
func (v *View) Read(after object.Revision, skip, limit int, to object.Revision) (pieces [][]byte, end parts.Cut, first entry) {
	end = parts.Cut{Limit: limit, UpTo: after}
	si, ei := v.find(after)
	if si == len(v.segments) {
		return nil, end, entry{}
	}
	si, ei = v.skip(si, ei, skip)

	// First find out how many events to take, because end.take may drop events that it has
	// taken before. Then slice their bytes.
	fromSegment, fromEntry := si, ei
	if si < len(v.segments) {
		first = v.segments[si].entries[ei]
	}
walk:
	for ; si < len(v.segments); si, ei = si+1, 0 {
		s := v.segments[si]
		for ; ei < v.visible(si); ei++ {
			if s.entries[ei].revision > to || !end.Take(s.entries[ei].revision, int(s.entries[ei].end)-s.start(ei)) {
				break walk
			}
		}
	}
	for left := end.Taken; left > 0; fromSegment, fromEntry = fromSegment+1, 0 {
		s := v.segments[fromSegment]
		n := min(left, v.visible(fromSegment)-fromEntry)
		begin, to := s.start(fromEntry), int(s.entries[fromEntry+n-1].end)
		pieces = append(pieces, s.bytes[begin:to:to])
		left -= n
	}
	return pieces, end, first
}

// logBudget limits the memory of the logs of all feeds. When a new segment exceeds the limit,
// the oldest segments are dropped, whichever feed they belong to. Watches then read the
// dropped events from the window, if the window still has them. The mutex of the Feeds guards
// the fields.
type logBudget struct {
	limit        int
	bytes        int
	evicted      int64       // number of segments dropped to make room
	publishLater func(*Feed) // see Feeds.publishLater
	segments     list.List   // all segments, as *segment, in the order of their creation
}

// add counts a new segment. If all segments together exceed the limit, it drops the oldest
// ones, but never the new one.
func (b *logBudget) add(s *segment) {
	s.place = b.segments.PushBack(s)
	b.bytes += len(s.bytes)
	for b.bytes > b.limit && b.segments.Len() > 1 {
		b.drop(b.segments.Front())
		b.evicted++
	}
}

// drop drops a segment, which is the oldest of its feed. The feed may be incomplete: the round may not
// have appended all its events of the present revision yet. So this feed, too, is published only at
// the end of the round.
func (b *logBudget) drop(e *list.Element) {
	f := e.Value.(*segment).feed
	b.publishLater(f)
	f.forgetOldest()
}

// remove returns the memory of a segment to the budget.
func (b *logBudget) remove(s *segment) {
	b.segments.Remove(s.place)
	b.bytes -= len(s.bytes)
}

// logAgeInterval is the shortest time between two searches for old segments. While nothing
// changes, Run searches at intervals of idleSweepInterval.
const logAgeInterval = 10 * time.Second

// maxYoungSegments is the number of young segments after which dropUntil stops its search. A
// segment is young if its last event is new. The segments are listed in the order of their
// creation, and a feed with few events fills its last segment slowly. So a young segment may
// come before old ones in the list.
const maxYoungSegments = 1000

// dropOldSegments occasionally drops the segments whose events are older than Config.LogAge.
// Nearly all watches have read these events. The others read them from the window. The
// caller holds the mutex and publishes the feeds.
func (fs *Feeds) dropOldSegments() {
	now := time.Now()
	if now.Sub(fs.aged) < logAgeInterval {
		return
	}
	fs.aged = now
	fs.logs.dropUntil(now.Add(-fs.Config.LogAge).Sub(fs.Created))
	fs.stats.logBytes.Store(int64(fs.logs.bytes))
}

// dropUntil drops each segment whose events all arrived before the given time.
func (b *logBudget) dropUntil(arrived time.Duration) {
	young := 0
	for e := b.segments.Front(); e != nil && young < maxYoungSegments; {
		next := e.Next()
		if s := e.Value.(*segment); s.entries[s.n-1].Arrived < arrived {
			// Older segments of the same feed come earlier in the list, and this loop has
			// already dropped them. So this segment is the oldest of its feed.
			b.drop(e)
		} else {
			young++
		}
		e = next
	}
}

// ageLogs drops old segments while nothing changes.
func (fs *Feeds) ageLogs() {
	fs.dropOldSegments()
	fs.publishAll()
	fs.takeNews() // there are none
}
