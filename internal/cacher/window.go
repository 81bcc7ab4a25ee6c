package cacher

import (
	"iter"
	"slices"
	"sort"

	"github.com/fanoutd/fanoutd/internal/object"
)

// segmentSize is the number of changes that are allocated together. A window is
// trimmed by segments, so it holds up to this many changes more in memory than it
// shows. A guess: large enough that a window of 10,000 is 40 segments.
const segmentSize = 256

type segment [segmentSize]object.Change

// window is a frozen view of the most recent changes, in order of revision. The
// writer's segments go on beyond the view: what lies between first and
// first+count is never written again.
type window struct {
	segments []*segment
	first    int             // index in segments[0] of the first change
	count    int             // number of changes
	bytes    int             // their size
	after    object.Revision // the window has every change after this revision
}

// at returns change i of the window, 0 being the oldest.
func (w *window) at(i int) *object.Change {
	i += w.first
	return &w.segments[i/segmentSize][i%segmentSize]
}

// search returns the index of the first change after the revision.
func (w *window) search(after object.Revision) int {
	return sort.Search(w.count, func(i int) bool { return w.at(i).Revision > after })
}

// since returns the changes after the revision, oldest first.
func (w *window) since(after object.Revision) iter.Seq[*object.Change] {
	return func(yield func(*object.Change) bool) {
		for i := w.search(after); i < w.count; i++ {
			if !yield(w.at(i)) {
				return
			}
		}
	}
}

// undoing returns the changes after the revision, newest first.
func (w *window) undoing(after object.Revision) iter.Seq[*object.Change] {
	return func(yield func(*object.Change) bool) {
		first := w.search(after)
		for i := w.count - 1; i >= first; i-- {
			if !yield(w.at(i)) {
				return
			}
		}
	}
}

// WindowLimits bound a window. It is trimmed at revision boundaries until it is
// within both.
type WindowLimits struct {
	MaxChanges int
	MaxBytes   int
}

// append adds a change at the end. Only the writer calls it, on its own copy of
// the view.
func (w *window) append(c object.Change) {
	end := w.first + w.count
	if end == len(w.segments)*segmentSize {
		// A fresh slice, because views that were published share the old one.
		grown := make([]*segment, len(w.segments), len(w.segments)+1)
		copy(grown, w.segments)
		w.segments = append(grown, new(segment))
	}
	w.segments[end/segmentSize][end%segmentSize] = c
	w.count++
	w.bytes += c.Size()
}

// trim forgets the oldest revisions until the window is within its limits.
func (w *window) trim(limits WindowLimits) {
	for w.count > 0 && (w.count > limits.MaxChanges || w.bytes > limits.MaxBytes) {
		w.after = w.at(0).Revision
		for w.count > 0 && w.at(0).Revision == w.after {
			w.bytes -= w.at(0).Size()
			w.first++
			w.count--
			if w.first == segmentSize {
				// Cloned, because the tail of a slice keeps its head in memory.
				w.segments = slices.Clone(w.segments[1:])
				w.first = 0
			}
		}
	}
}
