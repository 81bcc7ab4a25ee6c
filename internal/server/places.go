package server

import "sync"

// places are what clients can hold of something that there is only so much of, such
// as watches: everybody together, and each of them.
type places struct {
	total, each int // 0: as many as they like

	mu    sync.Mutex
	taken int            // guarded by mu
	by    map[client]int // guarded by mu; those who hold any
}

func newPlaces(total, each int) *places {
	return &places{total: total, each: each, by: map[client]int{}}
}

// fullError says that there is no place left.
type fullError struct {
	limit int
	own   bool // it is the limit of the client, not that of all
}

func (e *fullError) Error() string {
	if e.own {
		return "the client holds as many as it may"
	}
	return "all are taken"
}

// take takes a place, which must be given back once. The error is a [*fullError].
func (p *places) take(c client) (giveBack func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.each > 0 && p.by[c] >= p.each:
		return nil, &fullError{limit: p.each, own: true}
	case p.total > 0 && p.taken >= p.total:
		return nil, &fullError{limit: p.total}
	}
	p.taken++
	p.by[c]++
	return func() { p.giveBack(c) }, nil
}

func (p *places) giveBack(c client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.by[c]--; p.by[c] == 0 {
		delete(p.by, c)
	}
}

// count returns how many places are taken, and by how many clients.
func (p *places) count() (taken, clients int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, len(p.by)
}
