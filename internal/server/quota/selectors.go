package quota

import (
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// selectorQuota limits the distinct selectors of watches: those of all clients, and those
// of each. A selector that many watches share costs as much as one, so it counts once.
type selectorQuota struct {
	total, perClient int // 0: without limit

	mu       sync.Mutex
	all      map[selectorKey]int            // guarded by mu: watches that have it
	byClient map[Client]map[selectorKey]int // guarded by mu: watches of the client that have it
}

// selectorKey identifies a selector. Watches with the same key share a feed.
type selectorKey struct {
	resource   string
	scope      object.Scope
	selector   string // in its canonical form
	projection object.Projection
}

func newSelectorQuota(total, perClient int) *selectorQuota {
	return &selectorQuota{total: total, perClient: perClient, all: map[selectorKey]int{}, byClient: map[Client]map[selectorKey]int{}}
}

// acquire counts the selector of a watch of the client until it is released, once. Otherwise it
// returns the limit that is reached.
func (q *selectorQuota) acquire(c Client, key selectorKey) (release func(), reached *full) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.byClient[c]
	switch {
	case q.perClient > 0 && own[key] == 0 && len(own) >= q.perClient:
		return nil, &full{limit: q.perClient, own: true}
	case q.total > 0 && q.all[key] == 0 && len(q.all) >= q.total:
		return nil, &full{limit: q.total}
	}
	if own == nil {
		own = map[selectorKey]int{}
		q.byClient[c] = own
	}
	own[key]++
	q.all[key]++
	return func() { q.release(c, key) }, nil
}

func (q *selectorQuota) release(c Client, key selectorKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.byClient[c]
	for _, counts := range []map[selectorKey]int{own, q.all} {
		if counts[key]--; counts[key] == 0 {
			delete(counts, key)
		}
	}
	if len(own) == 0 {
		delete(q.byClient, c)
	}
}

// count returns how many distinct selectors there are.
func (q *selectorQuota) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.all)
}
