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
	mu     sync.Mutex                    // guards the Registration, too
	byID   map[uint64]*watch             // guarded by mu
	begun  registry.List[uint32, *watch] // guarded by mu: by their indexes
	latest uint32                        // guarded by mu: the highest index
}

func (t *table) init() { t.byID = map[uint64]*watch{} }

// find returns the watch with the id, or nil.
func (t *table) find(id uint64) *watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// add adds a watch whose id is not in use.
func (t *table) add(w *watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[w.StreamWatch.ID] = w
}

// free lets the client use the id of a watch again.
func (t *table) free(w *watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[w.StreamWatch.ID] == w {
		delete(t.byID, w.StreamWatch.ID)
	}
}

// begin gives a watch its index. It returns false if all indexes are used up.
func (t *table) begin(w *watch) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latest++; t.latest == 0 {
		t.latest--
		return false
	}
	w.Index = t.latest
	t.begun.Set(w.Index, w)
	return true
}

// remove removes watches that have begun, and returns those that the table had.
func (t *table) remove(ended ...*dispatch.StreamWatch) []*watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := make([]*watch, 0, len(ended))
	for _, one := range ended {
		if w, ok := t.begun.Delete(one.Index); ok {
			had = append(had, w)
		}
	}
	return had
}

// at returns the watch with the index, or nil.
func (t *table) at(index uint32) *watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, _ := t.begun.Get(index)
	return w
}

// each calls a function for the watches that have begun and have the index or a higher one; see
// [registry.List.Each].
func (t *table) each(from uint32, yield func(*watch) bool) bool {
	return t.begun.Each(&t.mu, from, yield)
}

// len returns the number of watches that have begun.
func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun.Len()
}

// waiting returns the watches that have not begun.
func (t *table) waiting() []*watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.appendWaiting(nil)
}

// appendWaiting is called with mu held.
func (t *table) appendWaiting(all []*watch) []*watch {
	for _, w := range t.byID {
		if w.Index == 0 {
			all = append(all, w)
		}
	}
	return all
}

// clear removes all watches and returns them.
func (t *table) clear() []*watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.appendWaiting(t.begun.Values())
	t.begun.Clear()
	clear(t.byID)
	return all
}
