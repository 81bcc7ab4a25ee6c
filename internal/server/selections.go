package server

import (
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// selections are the different selectors that watches have: of everybody together, and
// of each client. One that many share costs what it costs one of them, so it is
// counted once.
type selections struct {
	total, each int // 0: as many as they like

	mu  sync.Mutex
	all map[selection]int            // guarded by mu: watches that have it
	by  map[client]map[selection]int // guarded by mu: those of a client
}

// selection is what the watches of one interest have in common.
type selection struct {
	resource   string
	scope      object.Scope
	selector   string // in its canonical form
	projection object.Projection
}

func newSelections(total, each int) *selections {
	return &selections{total: total, each: each, all: map[selection]int{}, by: map[client]map[selection]int{}}
}

// take notes that a watch of the client has the selection, until it is given back,
// once. The error is a [*fullError].
func (s *selections) take(c client, what selection) (giveBack func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.by[c]
	switch {
	case s.each > 0 && own[what] == 0 && len(own) >= s.each:
		return nil, &fullError{limit: s.each, own: true}
	case s.total > 0 && s.all[what] == 0 && len(s.all) >= s.total:
		return nil, &fullError{limit: s.total}
	}
	if own == nil {
		own = map[selection]int{}
		s.by[c] = own
	}
	own[what]++
	s.all[what]++
	return func() { s.giveBack(c, what) }, nil
}

func (s *selections) giveBack(c client, what selection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.by[c]
	for _, counts := range []map[selection]int{own, s.all} {
		if counts[what]--; counts[what] == 0 {
			delete(counts, what)
		}
	}
	if len(own) == 0 {
		delete(s.by, c)
	}
}

// count returns how many different selections there are.
func (s *selections) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
