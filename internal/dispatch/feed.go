package dispatch

import (
	"slices"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// feed is the log of the events of one interest, and the watchers that read it.
type feed struct {
	interest Interest
	view     atomic.Pointer[view]
	version  atomic.Uint64 // counts the changes of view; see Watcher.settle
	catchUps catchUpCache
	batches  batchCache
	shared   atomic.Bool // the feed has had several watchers at once

	// The dispatcher's mutex guards the fields below.

	watchers int
	groups   []*group
	key      indexKey        // where the index has the feed
	noted    object.Revision // the last revision that was counted for the observer
	next     view            // what the next publish will show
	dirty    bool            // among the feeds that the current round publishes
	budget   *logBudget
}

func newFeed(i Interest, at object.Position, b *logBudget) *feed {
	f := &feed{interest: i, next: view{after: at}, budget: b}
	f.publish()
	return f
}

// append adds an encoded event to the log. Readers see it after publish.
func (f *feed) append(e entry, event []byte) {
	var last *segment
	if n := len(f.next.segments); n > 0 {
		last = f.next.segments[n-1]
	}
	if last == nil || !last.add(e, event) {
		s := newSegment(f, last, len(event))
		s.add(e, event)
		// A new slice, because published views share the old one.
		f.next.segments = append(slices.Clip(f.next.segments), s)
		f.budget.add(s)
		last = s
	}
	f.next.last = last.n
}

// forgetOldest drops the oldest segment to make room in the budget. If the segment ends
// inside a revision, the log then begins after that revision. A reader that has not read all
// of the revision must read it from the window.
func (f *feed) forgetOldest() {
	s := f.next.segments[0]
	f.next.after.Revision = s.entries[s.n-1].revision
	f.next.segments = slices.Clone(f.next.segments[1:])
	f.budget.remove(s)
}

// restart drops the log and continues it from another position.
func (f *feed) restart(at object.Position) {
	f.forget()
	f.next = view{after: at}
}

// forget returns all segments to the budget.
func (f *feed) forget() {
	for _, s := range f.next.segments {
		f.budget.remove(s)
	}
	f.next.segments = nil
}

// publish shows readers everything that was appended. It changes the view before the
// version, so a reader that loads the new version and then the view gets the new view.
func (f *feed) publish() {
	v := f.next
	before := f.view.Swap(&v)
	f.version.Add(1)
	f.dirty = false
	if before != nil && before.after != v.after {
		f.batches.clear()
	}
}

// share keeps a batch for other watchers, unless the log has meanwhile dropped the events
// of the batch. The order matters, here and in publish: first share stores the batch, then
// it looks at the view. So one of the two drops the batch.
func (f *feed) share(b *Batch) {
	kept := f.batches.add(b)
	if f.view.Load().after != b.start.view.after {
		kept.CompareAndSwap(b, nil)
	}
}
