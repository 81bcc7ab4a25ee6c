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

// window is a frozen view of the most recent changes, in order of revision. Views share an
// array: the writer appends after the end of every view, and never writes to what a view shows.
type window struct {
	changes []arrival
	bytes   int             // size of the changes
	after   object.Revision // the window has every change after this revision

	dropped int // size of the dropped changes that the array may still hold; for the writer only
}

// arrival is a change, and when it arrived.
type arrival struct {
	object.Change
	at time.Time
}

// droppedShare is the part of the limit in bytes that dropped changes may occupy, until the window
// gets a new array. It is a guess.
const droppedShare = 16

// search returns the index of the first change after the revision.
func (w *window) search(after object.Revision) int {
	return sort.Search(len(w.changes), func(i int) bool { return w.changes[i].Revision > after })
}

// since returns the changes after the revision, oldest first, and when they arrived.
func (w *window) since(after object.Revision) iter.Seq2[*object.Change, time.Time] {
	return func(yield func(*object.Change, time.Time) bool) {
		for i := w.search(after); i < len(w.changes); i++ {
			if !yield(&w.changes[i].Change, w.changes[i].at) {
				return
			}
		}
	}
}

// append adds a change at the end. Only the writer calls append, on its own copy of the view.
func (w *window) append(c object.Change, at time.Time) {
	w.changes = append(w.changes, arrival{c, at})
	w.bytes += c.Size()
}

// trim drops the oldest revisions until the window is within its limits.
func (w *window) trim(limits WindowLimits, now time.Time) {
	for len(w.changes) > 0 {
		n := w.search(w.changes[0].Revision) // the changes of the oldest revision
		tooMany := len(w.changes) > limits.MaxChanges || w.bytes > limits.MaxBytes
		tooOld := len(w.changes)-n >= limits.MinChanges && now.Sub(w.changes[0].at) > limits.Freshness
		if !tooMany && !tooOld {
			break
		}
		w.drop(n)
	}
	if w.dropped > limits.MaxBytes/droppedShare {
		w.changes, w.dropped = slices.Clone(w.changes), 0
	}
}

// drop removes the n oldest changes.
func (w *window) drop(n int) {
	for i := range w.changes[:n] {
		size := w.changes[i].Size()
		w.bytes -= size
		w.dropped += size
	}
	w.after, w.changes = w.changes[n-1].Revision, w.changes[n:]
}
