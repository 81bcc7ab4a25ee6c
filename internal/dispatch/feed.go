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
	version  atomic.Uint64 // counts the changes of view; see Watcher.joinGroup
	catchUps catchUpCache
	batches  batchCache

	hadSeveral atomic.Bool // the feed has had several watches at once, so batches are worth keeping

	// The dispatcher's mutex guards the fields below.

	watches     int
	groups      []*group
	key         indexKey        // the key under which the index lists the feed
	reported    object.Revision // the last revision for which roundReports.event was called
	next        view            // the view that the next call of publish will store
	unpublished bool            // the feed is in Dispatcher.unpublished
	budget      *logBudget
}

func newFeed(i Interest, at object.Position, b *logBudget) *feed {
	f := &feed{interest: i, next: view{base: at}, budget: b}
	f.publish()
	return f
}

// append adds an encoded event to the log. Readers see the event after the next call of
// publish.
func (f *feed) append(e entry, event []byte) {
	var last *segment
	if n := len(f.next.segments); n > 0 {
		last = f.next.segments[n-1]
	}
	if last == nil || !last.add(e, event) {
		s := newSegment(f, last, len(event))
		s.add(e, event)
		// Published views share the old slice, so the segment goes into a new one.
		f.next.segments = append(slices.Clip(f.next.segments), s)
		f.budget.add(s)
		last = s
	}
	f.next.visibleInLast = last.n
}

// forgetOldest drops the oldest segment to make room in the budget. If the segment ends
// inside a revision, the log then begins after that revision. A reader that has not read the
// whole revision must read the rest from the window.
func (f *feed) forgetOldest() {
	s := f.next.segments[0]
	f.next.base.Revision = s.entries[s.n-1].revision
	f.next.segments = slices.Clone(f.next.segments[1:])
	f.budget.remove(s)
}

// restart drops all events of the log, which was complete up to the position oldEnd. The
// empty log begins at the position newBase.
func (f *feed) restart(oldEnd, newBase object.Position) {
	last := f.next.lastRevision()
	f.forget()
	f.next = view{base: newBase, droppedEnd: oldEnd, droppedLast: last}
}

// forget drops all segments and returns their memory to the budget.
func (f *feed) forget() {
	for _, s := range f.next.segments {
		f.budget.remove(s)
	}
	f.next.segments = nil
}

// publish shows readers everything that was appended. It stores the view before it increases
// the version. So a reader that loads the new version, and then the view, gets the new view.
func (f *feed) publish() {
	v := f.next
	before := f.view.Swap(&v)
	f.version.Add(1)
	f.unpublished = false
	if before != nil && before.base != v.base {
		f.batches.clear()
	}
}

// keepBatch keeps a batch for other watchers, unless the log has dropped events meanwhile.
// The order matters. keepBatch stores the batch before it loads the view, and publish stores
// the view before it clears the batches. So at least one of the two drops an outdated batch.
func (f *feed) keepBatch(b *Batch) {
	kept := f.batches.add(b)
	if f.view.Load().base != b.start.view.base {
		kept.CompareAndSwap(b, nil)
	}
}
