package registry

import (
	"context"
	"runtime"
	"sync"

	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// Queues has the send queues of the connections that have watches, and the workers that serve them.
type Queues struct {
	workers *sendqueue.Workers // one for each processor

	mu             sync.Mutex
	lastLocalQueue int                     // guarded by mu: queueKey.localQueue of the latest in-process RPC
	byKey          map[queueKey]*ConnQueue // guarded by mu
}

// queueKey identifies a queue. gRPC uses one peer.Peer for all requests of a connection, so the
// pointer identifies the connection. A connection has one queue. The in-process connection,
// which all HTTP requests share, has one queue for each worker.
type queueKey struct {
	connection *peer.Peer
	localQueue int // number of the queue of the in-process connection; 0 for other connections
}

// ConnQueue is the send queue of a connection, with the number of RPCs that use it.
type ConnQueue struct {
	*sendqueue.Queue
	key  queueKey
	rpcs int // guarded by Queues.mu
}

func newQueues() *Queues {
	return &Queues{workers: sendqueue.Start(runtime.GOMAXPROCS(0)), byKey: map[queueKey]*ConnQueue{}}
}

// Acquire returns the send queue for an RPC of the connection in ctx. The caller releases
// the queue. The RPCs of the in-process connection get its queues in turn.
func (c *Queues) Acquire(ctx context.Context) *ConnQueue {
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
		q = &ConnQueue{Queue: c.workers.NewQueue(), key: key}
		c.byKey[key] = q
	}
	q.rpcs++
	return q
}

// Release gives a queue back. When the last RPC of a queue gives it back, Release removes
// the queue.
func (c *Queues) Release(q *ConnQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.rpcs--; q.rpcs == 0 {
		delete(c.byKey, q.key)
	}
}

// Len returns the number of send queues.
func (c *Queues) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey)
}
