package subscribe

import (
	"iter"
	"slices"
	"sync"
)

// table has the watches of a stream. A watch is in it with its id from its start until the client
// stops it or gets to know its end, so the client can use the id again. It is in it with its index
// while it is complete: from the end of its wait for etcd until the client has been sent its end.
type table struct {
	mu       sync.Mutex
	byID     map[uint64]*entry // guarded by mu
	complete []*entry          // guarded by mu: in the order of their indexes; nil: gone
	indexes  []uint32          // guarded by mu: of the elements of complete
	holes    int               // guarded by mu: elements of complete that are nil
	latest   uint32            // guarded by mu: the highest index
}

func (t *table) init() { t.byID = map[uint64]*entry{} }

// find returns the watch with the id, or nil.
func (t *table) find(id uint64) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// add adds a watch whose id is not in use.
func (t *table) add(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[e.StreamWatch.ID] = e
}

// free lets the client use the id of a watch again.
func (t *table) free(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[e.StreamWatch.ID] == e {
		delete(t.byID, e.StreamWatch.ID)
	}
}

// markComplete gives a watch its index. Operators see it from now on. It returns false if all
// indexes are used up.
func (t *table) markComplete(e *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latest++; t.latest == 0 {
		t.latest--
		return false
	}
	e.Index = t.latest
	t.complete, t.indexes = append(t.complete, e), append(t.indexes, e.Index)
	return true
}

// remove removes a complete watch. It reports whether the table had the watch.
func (t *table) remove(e *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.removeAt(e.Index) != nil
}

// removeAt is called with mu held. It removes and returns the complete watch with the index.
func (t *table) removeAt(index uint32) *entry {
	i, ok := slices.BinarySearch(t.indexes, index)
	if !ok || t.complete[i] == nil {
		return nil
	}
	e := t.complete[i]
	t.complete[i] = nil
	if t.holes++; t.holes > 32 && t.holes > len(t.complete)/2 {
		t.compact()
	}
	return e
}

// compact is called with mu held.
func (t *table) compact() {
	n := 0
	for i, e := range t.complete {
		if e != nil {
			t.complete[n], t.indexes[n] = e, t.indexes[i]
			n++
		}
	}
	t.complete, t.indexes, t.holes = slices.Clone(t.complete[:n]), slices.Clone(t.indexes[:n]), 0
}

// at returns the complete watch with the index, or nil.
func (t *table) at(index uint32) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := slices.BinarySearch(t.indexes, index); ok {
		return t.complete[i]
	}
	return nil
}

// fewEntries is the number of watches that after copies at a time.
const fewEntries = 256

// after returns the complete watches with a higher index, in the order of their indexes. It copies
// only a few at a time and does not hold the lock meanwhile, so watches begin and end.
func (t *table) after(index uint32) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		few := make([]*entry, 0, fewEntries)
		for {
			few = t.appendAfter(few[:0], index)
			for _, e := range few {
				if !yield(e) {
					return
				}
			}
			if len(few) < fewEntries {
				return
			}
			index = few[len(few)-1].Index
		}
	}
}

// appendAfter appends watches with a higher index until the slice is full.
func (t *table) appendAfter(few []*entry, index uint32) []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, found := slices.BinarySearch(t.indexes, index)
	if found {
		i++
	}
	for ; i < len(t.complete) && len(few) < cap(few); i++ {
		if e := t.complete[i]; e != nil {
			few = append(few, e)
		}
	}
	return few
}

// len returns the number of complete watches.
func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.complete) - t.holes
}

// waiting returns the watches that are not complete.
func (t *table) waiting() []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*entry
	for _, e := range t.byID {
		if e.Index == 0 {
			all = append(all, e)
		}
	}
	return all
}

// clear removes all watches and returns them.
func (t *table) clear() []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.DeleteFunc(t.complete, func(e *entry) bool { return e == nil })
	for _, e := range t.byID {
		if e.Index == 0 {
			all = append(all, e)
		}
	}
	t.complete, t.indexes, t.holes = nil, nil, 0
	clear(t.byID)
	return all
}
