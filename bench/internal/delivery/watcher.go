package delivery

// watcher counts the events of one watcher. The goroutine that reads for the watcher owns
// it until all such goroutines have stopped.
type watcher struct {
	interest Interest
	next     []uint32            // number of the next change, by slot of the interest
	missing  map[uint64]struct{} // events that did not arrive before a later change of the same key
	counts   Counts
}

// Counts counts deliveries by their outcome.
type Counts struct {
	Received   int64 `json:"received"`     // first arrivals
	Lost       int64 `json:"lost"`         // never arrived
	Duplicate  int64 `json:"duplicate"`    // arrived again
	OutOfOrder int64 `json:"out_of_order"` // arrived after a later change of the same key
	Foreign    int64 `json:"foreign"`      // outside the interest of the watcher
}

// Add adds other counts.
func (c *Counts) Add(d Counts) {
	c.Received += d.Received
	c.Lost += d.Lost
	c.Duplicate += d.Duplicate
	c.OutOfOrder += d.OutOfOrder
	c.Foreign += d.Foreign
}

// receive counts an event, and reports whether this is its first arrival within the interest.
func (w *watcher) receive(event uint64, keys int) bool {
	key, change := int(event%uint64(keys)), uint32(event/uint64(keys))
	slot, ok := w.interest.slot(key)
	if !ok {
		w.counts.Foreign++
		return false
	}
	next := w.next[slot]
	switch {
	case change == next:
		w.next[slot]++
	case change > next:
		if w.missing == nil {
			w.missing = map[uint64]struct{}{}
		}
		for ; next < change; next++ {
			w.missing[uint64(next)*uint64(keys)+uint64(key)] = struct{}{}
		}
		w.next[slot] = change + 1
	default:
		if _, ok := w.missing[event]; !ok {
			w.counts.Duplicate++
			return false
		}
		delete(w.missing, event)
		w.counts.OutOfOrder++
	}
	w.counts.Received++
	return true
}

// total returns the counts, given the number of changes of each key.
func (w *watcher) total(written []uint32) Counts {
	c := w.counts
	c.Lost = int64(len(w.missing))
	for slot, next := range w.next {
		if n := written[w.interest.Key(slot)]; n > next {
			c.Lost += int64(n - next)
		}
	}
	return c
}
