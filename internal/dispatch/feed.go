package dispatch

import (
	"slices"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// feed is the log of the events of one interest, and the watches that read it.
type feed struct {
	dispatcher *Dispatcher
	interest   Interest
	view       atomic.Pointer[view]
	catchUps   catchUpCache
	batches    batchCache

	hadSeveral atomic.Bool // the feed has had several watches at once, so batches are worth keeping

	// The dispatcher's mutex guards the fields below.

	watches  int
	groups   *group          // the first one; see group.sibling
	sibling  *feed           // see index.whole
	key      *indexKey       // the key under which the index lists the feed; nil: see index.whole
	reported object.Revision // the last revision for which roundReports.event was called
	next     *view           // the view that the next call of publish will store; nil: nothing has changed
}

// newFeed returns a feed with an empty log.
func newFeed(i Interest, d *Dispatcher, empty *view) *feed {
	f := &feed{dispatcher: d, interest: i}
	f.view.Store(empty)
	return f
}

// edit returns the view that the next call of publish will store.
func (f *feed) edit() *view {
	if f.next == nil {
		f.next = new(*f.view.Load())
	}
	return f.next
}

// append adds an encoded event to the log. Readers see the event after the next call of
// publish.
func (f *feed) append(e entry, event []byte) {
	next := f.edit()
	var last *segment
	if n := len(next.segments); n > 0 {
		last = next.segments[n-1]
	}
	if last == nil || !last.add(e, event) {
		s := newSegment(f, last, len(event))
		s.add(e, event)
		// Published views share the old slice, so the segment goes into a new one.
		next.segments = append(slices.Clip(next.segments), s)
		f.dispatcher.logs.add(s)
		last = s
	}
	next.visibleInLast = last.n
}

// forgetOldest drops the oldest segment to make room in the budget. If the segment ends
// inside a revision, the log then begins after that revision. A reader that has not read the
// whole revision must read the rest from the window.
func (f *feed) forgetOldest() {
	next := f.edit()
	s := next.segments[0]
	next.base.Revision = s.entries[s.n-1].revision
	next.segments = slices.Clone(next.segments[1:])
	f.dispatcher.logs.remove(s)
}

// restart drops all events of the log, which was complete up to the position oldEnd. The
// empty log begins at the position newBase.
func (f *feed) restart(oldEnd, newBase object.Position) {
	last := f.edit().lastRevision()
	f.forget()
	f.next = &view{base: newBase, dropped: &droppedLog{oldEnd, last}}
}

// forget drops all segments and returns their memory to the budget.
func (f *feed) forget() {
	next := f.edit()
	for _, s := range next.segments {
		f.dispatcher.logs.remove(s)
	}
	next.segments = nil
}

// publish shows readers everything that was appended.
func (f *feed) publish() {
	v := f.edit()
	before := f.view.Swap(v)
	f.next = nil
	if before.base != v.base {
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
