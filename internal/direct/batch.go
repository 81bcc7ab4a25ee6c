package direct

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/dispatch/parts"
	"github.com/fanoutd/fanoutd/internal/object"
)

// encodeBatch takes the events of the next message from the pending changes and encodes
// them. If the message ends inside a revision, the reader stays before the revision until all of it
// has been taken. Merged changes count as one revision.
func (r *Reader) encodeBatch() (events [][]byte, count int) {
	var b []byte
	cut := parts.Cut{Limit: r.source.cfg.MessageBytes}
	for i := range r.pending {
		c := &r.pending[i]
		revision := c.Revision
		if r.merged {
			revision = r.through
		}
		before := len(b)
		e, _ := r.interest.See(c) // the tail keeps only changes that the interest sees
		b = r.source.cfg.Encoder.AppendEvent(b, e, r.interest.Projection)
		if !cut.Take(revision, len(b)-before) {
			break
		}
	}
	r.pending, r.partial = r.pending[cut.Taken:], cut.Partial
	switch {
	case !cut.Partial:
		r.after = max(r.after, cut.UpTo)
	case r.merged:
		r.after = r.sentAfter // the changes were merged from there on
	}
	if len(r.pending) == 0 {
		r.merged = false
		r.deliveredAll()
	}
	return [][]byte{b[:cut.Bytes]}, cut.Taken
}

// merge merges the changes of each key into one (see [feed.Interest.Merge]). The changes
// are in order of revision.
func merge(changes []object.Change, i *feed.Interest, replay bool) []object.Change {
	all := i.Merge(func(yield func(*object.Change, time.Time) bool) {
		for j := range changes {
			if !yield(&changes[j], time.Time{}) {
				return
			}
		}
	}, changes[len(changes)-1].Revision, replay)
	merged := make([]object.Change, len(all))
	for j := range all {
		merged[j] = all[j].Change
	}
	return merged
}
