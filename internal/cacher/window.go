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

// segmentSize is the number of changes that are allocated together. The window is trimmed
// by segments, so it may hold this many more changes in memory than it shows. The number
// is a guess: a window of 10,000 changes has 40 segments.
const segmentSize = 256

type segment struct {
	changes  [segmentSize]object.Change
	received [segmentSize]time.Time
}

// window is a frozen view of the most recent changes, in order of revision. The writer
// appends to the segments after the view; the changes from first to first+count are never
// written again.
type window struct {
	segments []*segment
	first    int             // index in segments[0] of the first change
	count    int             // number of changes
	bytes    int             // size of the changes
	after    object.Revision // the window has every change after this revision
}

// at returns change i of the window. Change 0 is the oldest.
func (w *window) at(i int) *object.Change {
	i += w.first
	return &w.segments[i/segmentSize].changes[i%segmentSize]
}

// received returns when change i of the window arrived.
func (w *window) received(i int) time.Time {
	i += w.first
	return w.segments[i/segmentSize].received[i%segmentSize]
}

// search returns the index of the first change after the revision.
func (w *window) search(after object.Revision) int {
	return sort.Search(w.count, func(i int) bool { return w.at(i).Revision > after })
}

// since returns the changes after the revision, oldest first, and when they arrived.
func (w *window) since(after object.Revision) iter.Seq2[*object.Change, time.Time] {
	return func(yield func(*object.Change, time.Time) bool) {
		for i := w.search(after); i < w.count; i++ {
			if !yield(w.at(i), w.received(i)) {
				return
			}
		}
	}
}

// newestFirst returns the changes after the revision, newest first.
func (w *window) newestFirst(after object.Revision) iter.Seq[*object.Change] {
	return func(yield func(*object.Change) bool) {
		first := w.search(after)
		for i := w.count - 1; i >= first; i-- {
			if !yield(w.at(i)) {
				return
			}
		}
	}
}

// append adds a change at the end. Only the writer calls it, on its own copy of the view.
func (w *window) append(c object.Change, received time.Time) {
	end := w.first + w.count
	if end == len(w.segments)*segmentSize {
		// A new slice, because published views share the old one.
		grown := make([]*segment, len(w.segments), len(w.segments)+1)
		copy(grown, w.segments)
		w.segments = append(grown, new(segment))
	}
	s := w.segments[end/segmentSize]
	s.changes[end%segmentSize], s.received[end%segmentSize] = c, received
	w.count++
	w.bytes += c.Size()
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
		if w.first == segmentSize {
			// Cloned, because a sub-slice would keep the dropped segment in memory.
			w.segments = slices.Clone(w.segments[1:])
			w.first = 0
		}
	}
}
