package feed

import (
	"slices"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/dispatch/parts"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Feed is the log of the events of one interest, and the watches that read it.
type Feed struct {
	Feeds    *Feeds
	Interest Interest
	View     atomic.Pointer[View]
	CatchUps parts.Cache
	batches  batchCache

	hadSeveral atomic.Bool // the feed has had several watches at once, so batches are worth keeping

	// The mutex of the Feeds guards the fields below.

	watches  int
	Groups   any             // for the user of the feeds; nil in a new feed
	sibling  *Feed           // see index.whole
	key      *indexKey       // the key under which the index lists the feed; nil: see index.whole
	reported object.Revision // the last revision for which roundReports.event was called
	next     *View           // the view that the next call of publish will store; nil: nothing has changed
	hasNews  bool            // the view has events that the published one has not, or the log was restarted
}

// edit returns the view that the next call of publish will store.
func (f *Feed) edit() *View {
	if f.next == nil {
		f.next = new(*f.View.Load())
	}
	return f.next
}

// append adds an encoded event to the log. Readers see the event after the next call of
// publish.
func (f *Feed) append(e entry, event []byte) {
	next := f.edit()
	f.hasNews = true
	var last *segment
	if n := len(next.segments); n > 0 {
		last = next.segments[n-1]
	}
	if last == nil || !last.add(e, event) {
		s := newSegment(f, last, len(event))
		s.add(e, event)
		// Published views share the old slice, so the segment goes into a new one.
		next.segments = append(slices.Clip(next.segments), s)
		f.Feeds.logs.add(s)
		last = s
	}
	next.visibleInLast = last.n
}

// forgetOldest drops the oldest segment to make room in the budget. If the segment ends
// inside a revision, the log then begins after that revision. A reader that has not read the
// whole revision must read the rest from the window.
func (f *Feed) forgetOldest() {
	next := f.edit()
	s := next.segments[0]
	next.base.Revision = s.entries[s.n-1].revision
	next.segments = slices.Clone(next.segments[1:])
	f.Feeds.logs.remove(s)
}

// restart drops all events of the log, which was complete up to the position oldEnd. The
// empty log begins at the position newBase.
func (f *Feed) restart(oldEnd, newBase object.Position) {
	last := f.edit().lastRevision()
	f.forget()
	f.next = &View{base: newBase, dropped: &droppedLog{oldEnd, last}}
	f.hasNews = true
}

// forget drops all segments and returns their memory to the budget.
func (f *Feed) forget() {
	next := f.edit()
	for _, s := range next.segments {
		f.Feeds.logs.remove(s)
	}
	next.segments = nil
}

// publish shows readers everything that was appended.
func (f *Feed) publish() {
	v := f.edit()
	before := f.View.Swap(v)
	f.next = nil
	if before.base != v.base {
		f.batches.clear()
	}
}

// keepBatch keeps a batch for other watches, unless the log has dropped events meanwhile.
// The order matters. keepBatch stores the batch before it loads the view, and publish stores
// the view before it clears the batches. So at least one of the two drops an outdated batch.
func (f *Feed) keepBatch(b *Batch) {
	kept := f.batches.add(b)
	if f.View.Load().base != b.start.View.base {
		kept.CompareAndSwap(b, nil)
	}
}
