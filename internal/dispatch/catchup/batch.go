package catchup

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
)

// NextBatch returns the next batch from the log, or nil if there is none. It returns false if the log
// does not have it, or if events have to be merged.
func (r *Reader) NextBatch(now time.Time) (b *feed.Batch, ok bool) {
	// The order of the two loads matters; see Reader.events.
	dispatchedUpTo := r.dispatchedUpTo()
	v := r.Feed.View.Load()
	if !r.InLog(v) || r.MergeTo > 0 {
		return nil, false
	}
	b = r.Feed.Batch(feed.Start{View: v, After: r.After, Skip: r.Skip}, now)
	switch {
	case b == nil:
		r.After = max(r.After, dispatchedUpTo)
	case r.Latest && r.Skip == 0 && !b.Distinct():
		return nil, false
	}
	return b, true
}

// Pass moves the reader past a batch.
func (r *Reader) Pass(b *feed.Batch) {
	if r.Latest && b.End.Partial {
		r.MergeTo = b.End.Current // see Reader.events
	}
	r.After, r.Skip = b.End.Advance(r.After, r.Skip)
}
