package quota

import "sync"

// clientQuota are what clients can hold of something that there is only so much of, such
// as watches: everybody together, and each of them.
type clientQuota struct {
	total, perClient int // 0: as many as they like

	mu     sync.Mutex
	held   int            // guarded by mu
	heldBy map[Client]int // guarded by mu; those who hold any
}

func newClientQuota(total, each int) *clientQuota {
	return &clientQuota{total: total, perClient: each, heldBy: map[Client]int{}}
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
func (p *clientQuota) take(c Client) (giveBack func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.perClient > 0 && p.heldBy[c] >= p.perClient:
		return nil, &fullError{limit: p.perClient, own: true}
	case p.total > 0 && p.held >= p.total:
		return nil, &fullError{limit: p.total}
	}
	p.held++
	p.heldBy[c]++
	return func() { p.release(c) }, nil
}

func (p *clientQuota) release(c Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	if p.heldBy[c]--; p.heldBy[c] == 0 {
		delete(p.heldBy, c)
	}
}

// count returns how many places are taken, and by how many clients.
func (p *clientQuota) count() (taken, clients int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held, len(p.heldBy)
}
