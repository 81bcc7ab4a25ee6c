package direct

import "github.com/fanoutd/fanoutd/internal/object"

// part takes the events of the next message from the pending changes, and counts
// them: whole revisions, as many as fit. Only what alone is too large is split, and then the
// cursor stays before it until all of it has been taken. What was merged is one
// whole.
func (w *Watcher) part() (events [][]byte, count int) {
	var b []byte
	n := 0             // changes that are in b
	var whole struct { // the message as it was when everything in it was complete
		n, bytes int
		upto     object.Revision
	}
	for ; n < len(w.pending); n++ {
		c := &w.pending[n]
		before := len(b)
		e, _ := w.interest.See(c) // it was seen before it was kept
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
	w.parts = whole.n == 0
	if w.parts {
		if w.merged {
			w.cursor = w.told // they are merged from there on
		}
		w.pending = w.pending[n:]
		return [][]byte{b}, n
	}
	w.cursor = max(w.cursor, whole.upto)
	if w.pending = w.pending[whole.n:]; len(w.pending) == 0 {
		w.merged = false
		w.cursor = max(w.cursor, w.through)
	}
	return [][]byte{b[:whole.bytes]}, whole.n
}
