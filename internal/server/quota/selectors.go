package quota

import (
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// selectorQuota are the different selectors that watches have: of everybody together, and
// of each client. One that many share costs what it costs one of them, so it is
// counted once.
type selectorQuota struct {
	total, perClient int // 0: as many as they like

	mu       sync.Mutex
	all      map[selectorKey]int            // guarded by mu: watches that have it
	byClient map[Client]map[selectorKey]int // guarded by mu: those of a client
}

// selectorKey is what the watches of one interest have in common.
type selectorKey struct {
	resource   string
	scope      object.Scope
	selector   string // in its canonical form
	projection object.Projection
}

func newSelectorQuota(total, each int) *selectorQuota {
	return &selectorQuota{total: total, perClient: each, all: map[selectorKey]int{}, byClient: map[Client]map[selectorKey]int{}}
}

// take notes that a watch of the client has the selection, until it is given back,
// once. The error is a [*fullError].
func (s *selectorQuota) take(c Client, what selectorKey) (giveBack func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.byClient[c]
	switch {
	case s.perClient > 0 && own[what] == 0 && len(own) >= s.perClient:
		return nil, &fullError{limit: s.perClient, own: true}
	case s.total > 0 && s.all[what] == 0 && len(s.all) >= s.total:
		return nil, &fullError{limit: s.total}
	}
	if own == nil {
		own = map[selectorKey]int{}
		s.byClient[c] = own
	}
	own[what]++
	s.all[what]++
	return func() { s.release(c, what) }, nil
}

func (s *selectorQuota) release(c Client, what selectorKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.byClient[c]
	for _, counts := range []map[selectorKey]int{own, s.all} {
		if counts[what]--; counts[what] == 0 {
			delete(counts, what)
		}
	}
	if len(own) == 0 {
		delete(s.byClient, c)
	}
}

// count returns how many different selections there are.
func (s *selectorQuota) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
