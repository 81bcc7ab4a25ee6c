package dispatch

import (
	"slices"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// feed is the log of the events of one interest, and the watchers who read it.
type feed struct {
	interest Interest
	view     atomic.Pointer[view]
	version  atomic.Uint64 // counts changes of view; see Watcher.park
	shards   []shard       // the parked watchers, one shard for each waker
	memo     memo
	tellings tellings
	shared   atomic.Bool // there was more than one watcher at some time

	// What follows is guarded by the dispatcher's mutex.

	watchers int
	cohorts  []*cohort
	place    place           // in the index
	noted    object.Revision // the last one that was counted for the observer
	next     view            // what the next publish will show
	dirty    bool            // among those that the present round publishes
	budget   *budget
}

func newFeed(i Interest, at object.Position, wakers int, b *budget) *feed {
	f := &feed{interest: i, shards: make([]shard, wakers), next: view{after: at}, budget: b}
	f.publish()
	return f
}

// append adds an encoded event to the log; publish shows it.
func (f *feed) append(e entry, event []byte) {
	var last *segment
	if n := len(f.next.segments); n > 0 {
		last = f.next.segments[n-1]
	}
	if last == nil || !last.add(e, event) {
		s := newSegment(f, last, len(event))
		s.add(e, event)
		// A fresh slice, because views that were published share the old one.
		f.next.segments = append(slices.Clip(f.next.segments), s)
		f.budget.add(s)
		last = s
	}
	f.next.last = last.n
}

// forgetOldest drops the oldest segment to make room in the budget. A revision
// that lies across the cut is forgotten as a whole by those who have not read
// all of it: the log goes on after it.
func (f *feed) forgetOldest() {
	s := f.next.segments[0]
	f.next.after.Revision = s.entries[s.n-1].at
	f.next.segments = slices.Clone(f.next.segments[1:])
	f.budget.remove(s)
}

// restart forgets the log and continues it from another position.
func (f *feed) restart(at object.Position) {
	f.forget()
	f.next = view{after: at}
}

// forget gives all segments back to the budget.
func (f *feed) forget() {
	for _, s := range f.next.segments {
		f.budget.remove(s)
	}
	f.next.segments = nil
}

// publish shows readers everything that was appended. Their view changes before
// the version does, so who has seen the version sees the view.
func (f *feed) publish() {
	v := f.next
	before := f.view.Swap(&v)
	f.version.Add(1)
	f.dirty = false
	if before != nil && before.after != v.after {
		f.tellings.forget()
	}
}

// share keeps a message for other watchers, unless the log has forgotten meanwhile what
// the message is made of. The order matters, here and in publish: first kept, then the
// look at the view; so one of the two drops it.
func (f *feed) share(t *Telling) {
	kept := f.tellings.add(t)
	if f.view.Load().after != t.from.view.after {
		kept.CompareAndSwap(t, nil)
	}
}
