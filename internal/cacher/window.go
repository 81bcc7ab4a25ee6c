package cacher

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// WindowLimits limit how much history the window keeps: the changes of a time span, but
// at least MinChanges and at most MaxChanges and MaxBytes. The window is trimmed by whole
// revisions.
type WindowLimits struct {
	MinChanges int           // default 1,000
	MaxChanges int           // default 10,000
	MaxBytes   int           // of the changes; default 64 MiB
	Freshness  time.Duration // the time span; default 5 min
}

func (l WindowLimits) withDefaults() WindowLimits {
	l.MaxChanges = cmp.Or(l.MaxChanges, 10_000)
	l.MinChanges = cmp.Or(l.MinChanges, min(1_000, l.MaxChanges))
	l.MaxBytes = cmp.Or(l.MaxBytes, 64<<20)
	l.Freshness = cmp.Or(l.Freshness, 5*time.Minute)
	return l
}

// A segment is a number of changes that are allocated together. The window is trimmed by
// segments, so it may hold one segment more in memory than it shows. Therefore a segment
// ends after so many changes, or when its changes have a sixteenth of the bytes of the whole
// window. The minimum keeps the segments of very small windows worth their overhead.
// The numbers are guesses: a window of 10,000 small changes has 40 segments.
const (
	segmentChanges  = 256
	segmentShare    = 16
	minSegmentBytes = 16 << 10
)

// segmentBytes returns the size of the changes at which a segment ends.
func (l *WindowLimits) segmentBytes() int { return max(l.MaxBytes/segmentShare, minSegmentBytes) }

type segment struct {
	begin    int // number of the first change, counted since the window was empty
	changes  [segmentChanges]object.Change
	received [segmentChanges]time.Time
}

// window is a frozen view of the most recent changes, in order of revision. The writer
// appends to the segments after the view; the changes from first to first+count are never
// written again.
type window struct {
	segments []*segment
	first    int             // number of the first change
	count    int             // number of changes
	bytes    int             // size of the changes
	after    object.Revision // the window has every change after this revision

	newestBytes int // size of the changes in the last segment; for the writer only
}

// locate returns the segment of change i, and its place there.
func (w *window) locate(i int) (*segment, int) {
	number := w.first + i
	s := sort.Search(len(w.segments), func(s int) bool { return w.segments[s].begin > number }) - 1
	return w.segments[s], number - w.segments[s].begin
}

// at returns change i of the window. Change 0 is the oldest.
func (w *window) at(i int) *object.Change {
	s, place := w.locate(i)
	return &s.changes[place]
}

// received returns when change i of the window arrived.
func (w *window) received(i int) time.Time {
	s, place := w.locate(i)
	return s.received[place]
}

// search returns the index of the first change after the revision.
func (w *window) search(after object.Revision) int {
	return sort.Search(w.count, func(i int) bool { return w.at(i).Revision > after })
}

// end returns the number after the last change of a segment that the window shows.
func (w *window) end(segment int) int {
	if segment+1 < len(w.segments) {
		return w.segments[segment+1].begin
	}
	return w.first + w.count
}

// since returns the changes after the revision, oldest first, and when they arrived.
func (w *window) since(after object.Revision) iter.Seq2[*object.Change, time.Time] {
	return func(yield func(*object.Change, time.Time) bool) {
		number := w.first + w.search(after)
		for i, s := range w.segments {
			for end := w.end(i); number < end; number++ {
				place := number - s.begin
				if !yield(&s.changes[place], s.received[place]) {
					return
				}
			}
		}
	}
}

// newestFirst returns the changes after the revision, newest first.
func (w *window) newestFirst(after object.Revision) iter.Seq[*object.Change] {
	return func(yield func(*object.Change) bool) {
		first := w.first + w.search(after)
		number := w.first + w.count - 1
		for _, s := range slices.Backward(w.segments) {
			for ; number >= max(first, s.begin); number-- {
				if !yield(&s.changes[number-s.begin]) {
					return
				}
			}
		}
	}
}

// append adds a change at the end. A segment ends when its changes have so many bytes. Only
// the writer calls append, on its own copy of the view.
func (w *window) append(c object.Change, received time.Time, segmentBytes int) {
	number := w.first + w.count
	last := len(w.segments) - 1
	if last < 0 || number == w.segments[last].begin+segmentChanges || w.newestBytes >= segmentBytes {
		// A new slice, because published views share the old one.
		w.segments = append(slices.Clip(w.segments), &segment{begin: number})
		w.newestBytes = 0
		last++
	}
	s := w.segments[last]
	s.changes[number-s.begin], s.received[number-s.begin] = c, received
	w.count++
	w.bytes += c.Size()
	w.newestBytes += c.Size()
}

// trim drops the oldest revisions until the window is within its limits.
func (w *window) trim(limits WindowLimits, now time.Time) {
	for w.count > 0 {
		n := w.oldestRevisionLen()
		tooMany := w.count > limits.MaxChanges || w.bytes > limits.MaxBytes
		tooOld := w.count-n >= limits.MinChanges && now.Sub(w.received(0)) > limits.Freshness
		if !tooMany && !tooOld {
			return
		}
		w.drop(n)
	}
}

// oldestRevisionLen returns the number of changes of the oldest revision.
func (w *window) oldestRevisionLen() int {
	n := 1
	for n < w.count && w.at(n).Revision == w.at(0).Revision {
		n++
	}
	return n
}

// drop removes the n oldest changes.
func (w *window) drop(n int) {
	for range n {
		w.after = w.at(0).Revision
		w.bytes -= w.at(0).Size()
		w.first++
		w.count--
		if w.first == w.end(0) {
			// Cloned, because a sub-slice would keep the dropped segment in memory.
			w.segments = slices.Clone(w.segments[1:])
		}
	}
}
