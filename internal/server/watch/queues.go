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

	mu             sync.Mutex
	lastLocalQueue int                     // guarded by mu: queueKey.localQueue of the latest in-process watch
	byKey          map[queueKey]*connQueue // guarded by mu
}

// queueKey identifies a queue. gRPC uses one peer.Peer for all requests of a connection, so the
// pointer identifies the connection. A connection has one queue. The in-process connection,
// which all HTTP requests share, has one queue for each worker.
type queueKey struct {
	connection *peer.Peer
	localQueue int // number of the queue of the in-process connection; 0 for other connections
}

// connQueue is a send queue with the number of watches that use it.
type connQueue struct {
	*sendqueue.Queue
	key     queueKey
	watches int // guarded by connQueues.mu
}

func newConnQueues() *connQueues {
	return &connQueues{workers: sendqueue.Start(runtime.GOMAXPROCS(0)), byKey: map[queueKey]*connQueue{}}
}

// acquire returns the send queue for a new watch of the connection in ctx. The caller releases
// the queue. The watches of the in-process connection get its queues in turn.
func (c *connQueues) acquire(ctx context.Context) *connQueue {
	connection, _ := peer.FromContext(ctx)
	key := queueKey{connection: connection}
	c.mu.Lock()
	defer c.mu.Unlock()
	if transport.IsLocal(ctx) {
		c.lastLocalQueue = (c.lastLocalQueue + 1) % c.workers.Len()
		key.localQueue = c.lastLocalQueue
	}
	q := c.byKey[key]
	if q == nil {
		q = &connQueue{Queue: c.workers.NewQueue(), key: key}
		c.byKey[key] = q
	}
	q.watches++
	return q
}

// release gives a queue back. When the last watch of a queue gives it back, release removes
// the queue.
func (c *connQueues) release(q *connQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.watches--; q.watches == 0 {
		delete(c.byKey, q.key)
	}
}

// AcquireQueue returns the send queue for a Subscribe stream of the connection in ctx. The
// caller calls release when the stream has ended.
func (s *Service) AcquireQueue(ctx context.Context) (q *sendqueue.Queue, release func()) {
	of := s.queues.acquire(ctx)
	return of.Queue, func() { s.queues.release(of) }
}

// Queues returns the number of send queues.
func (s *Service) Queues() int {
	c := s.queues
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey)
}
