package watch

import (
	"context"
	"runtime"
	"sync"

	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// connQueues has the send queues of the connections that have watches.
type connQueues struct {
	workers *sendqueue.Workers // one for each processor

	mu    sync.Mutex
	local int                     // guarded by mu: round-robin counter for watches from within the process
	byKey map[queueKey]*connQueue // guarded by mu
}

// queueKey identifies a queue. gRPC has one peer for each connection. All requests over HTTP
// share one connection within the process, which has as many queues as there are workers.
type queueKey struct {
	connection *peer.Peer
	local      int
}

type connQueue struct {
	*sendqueue.Queue
	key     queueKey
	watches int // guarded by connQueues.mu
}

func newConnQueues() *connQueues {
	return &connQueues{workers: sendqueue.Start(runtime.GOMAXPROCS(0)), byKey: map[queueKey]*connQueue{}}
}

// acquire returns a queue of the connection that a watch comes over. The caller releases it.
func (c *connQueues) acquire(ctx context.Context) *connQueue {
	connection, _ := peer.FromContext(ctx)
	key := queueKey{connection: connection}
	c.mu.Lock()
	defer c.mu.Unlock()
	if transport.IsLocal(ctx) {
		c.local = (c.local + 1) % c.workers.Len()
		key.local = c.local
	}
	q := c.byKey[key]
	if q == nil {
		q = &connQueue{Queue: c.workers.NewQueue(), key: key}
		c.byKey[key] = q
	}
	q.watches++
	return q
}

func (c *connQueues) release(q *connQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.watches--; q.watches == 0 {
		delete(c.byKey, q.key)
	}
}

// Queues returns the number of send queues.
func (s *Service) Queues() int {
	c := s.queues
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey)
}
