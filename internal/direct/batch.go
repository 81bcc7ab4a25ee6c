package direct

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// encodeBatch takes the events of the next message from the pending changes and encodes
// them: as many whole revisions as fit. It splits only a revision that is too large for a
// message; the cursor then stays before the revision until all of it has been taken.
// Merged changes count as one revision.
func (w *Watcher) encodeBatch() (events [][]byte, count int) {
	var b []byte
	n := 0             // number of changes in b
	var whole struct { // the message up to the last complete revision
		n, bytes int
		upto     object.Revision
	}
	for ; n < len(w.pending); n++ {
		c := &w.pending[n]
		before := len(b)
		e, _ := w.interest.See(c) // the tail keeps only changes that the interest sees
		b = w.source.cfg.Encoder.AppendEvent(b, e, w.interest.Projection)
		if n > 0 && len(b) > w.source.cfg.MessageBytes {
			b = b[:before]
			break
		}
		last := n+1 == len(w.pending)
		if last || !w.merged && w.pending[n+1].Revision != c.Revision {
			whole.n, whole.bytes, whole.upto = n+1, len(b), c.Revision
		}
	}
	w.partial = whole.n == 0
	if w.partial {
		if w.merged {
			w.cursor = w.sentCursor // the changes were merged from there on
		}
		w.pending = w.pending[n:]
		return [][]byte{b}, n
	}
	w.cursor = max(w.cursor, whole.upto)
	if w.pending = w.pending[whole.n:]; len(w.pending) == 0 {
		w.merged = false
		w.deliveredAll()
	}
	return [][]byte{b[:whole.bytes]}, whole.n
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
