package quota

import "sync"

// clientQuota limits how many things exist at once that last for a while, such as watches:
// those of all clients, and those of each.
type clientQuota struct {
	total, perClient int // 0: without limit

	mu     sync.Mutex
	held   int            // guarded by mu
	heldBy map[Client]int // guarded by mu; clients that hold none are absent
}

func newClientQuota(total, perClient int) *clientQuota {
	return &clientQuota{total: total, perClient: perClient, heldBy: map[Client]int{}}
}

// full is a limit that is reached.
type full struct {
	limit int
	own   bool // the limit is that of the client, not of all clients
}

// take counts one thing of a client until giveBack. It returns the limit that is reached, or nil.
func (q *clientQuota) take(c Client) *full { return q.takeWithin(c, q.total, q.perClient) }

// takeWithin is like take with other limits.
func (q *clientQuota) takeWithin(c Client, total, perClient int) *full {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case perClient > 0 && q.heldBy[c] >= perClient:
		return &full{limit: perClient, own: true}
	case total > 0 && q.held >= total:
		return &full{limit: total}
	}
	q.held++
	q.heldBy[c]++
	return nil
}

// giveBack releases one thing of a client.
func (q *clientQuota) giveBack(c Client) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held--
	if q.heldBy[c]--; q.heldBy[c] == 0 {
		delete(q.heldBy, c)
	}
}

// count returns how many things are held, and by how many clients.
func (q *clientQuota) count() (held, clients int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held, len(q.heldBy)
}
