package dispatch

import "time"

// nextBatch returns the next batch from the log, or nil if there is none. It returns false if the log
// does not have it, or if events have to be merged.
func (r *reader) nextBatch(now time.Time) (b *Batch, ok bool) {
	// The order of the two loads matters; see reader.events.
	dispatchedUpTo := r.dispatchedUpTo()
	v := r.feed.view.Load()
	if !r.inLog(v) || r.mergeTo > 0 {
		return nil, false
	}
	b = r.feed.batch(batchStart{v, r.after, r.skip}, now)
	switch {
	case b == nil:
		r.after = max(r.after, dispatchedUpTo)
	case r.latest && r.skip == 0 && !b.distinct():
		return nil, false
	}
	return b, true
}

// pass moves the reader past a batch.
func (r *reader) pass(b *Batch) {
	if r.latest && b.endsInside() > 0 {
		r.mergeTo = b.endsInside() // see reader.events
	}
	r.after, r.skip = b.advance(r.after, r.skip)
}
