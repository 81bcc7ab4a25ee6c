package subscribe

import (
	"sync"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// table has the watches of a stream. A watch is in it with its id from its start until the client
// stops it or gets to know its end, so the client can use the id again. It is in it with its index
// from when it begins until the client has been sent its end.
type table struct {
	mu     sync.Mutex                    // guards the Records, too
	byID   map[uint64]*entry             // guarded by mu
	begun  registry.List[uint32, *entry] // guarded by mu: by their indexes
	latest uint32                        // guarded by mu: the highest index
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

// begin gives a watch its index. It returns false if all indexes are used up.
func (t *table) begin(e *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latest++; t.latest == 0 {
		t.latest--
		return false
	}
	e.Index = t.latest
	t.begun.Add(e.Index, e)
	return true
}

// remove removes watches that have begun, and returns those that the table had.
func (t *table) remove(watches ...*dispatch.StreamWatch) []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := make([]*entry, 0, len(watches))
	for _, w := range watches {
		if e := t.begun.Remove(w.Index); e != nil {
			had = append(had, e)
		}
	}
	return had
}

// at returns the watch with the index, or nil.
func (t *table) at(index uint32) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun.At(index)
}

// each calls a function for the watches that have begun and have the index or a higher one; see
// [registry.List.Each].
func (t *table) each(from uint32, yield func(*entry) bool) bool {
	return t.begun.Each(&t.mu, from, yield)
}

// len returns the number of watches that have begun.
func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun.Len()
}

// waiting returns the watches that have not begun.
func (t *table) waiting() []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.appendWaiting(nil)
}

// appendWaiting is called with mu held.
func (t *table) appendWaiting(all []*entry) []*entry {
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
	all := t.appendWaiting(t.begun.Clear())
	clear(t.byID)
	return all
}
