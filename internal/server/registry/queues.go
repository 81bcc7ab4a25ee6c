package registry

import (
	"runtime"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// Queues has the workers that serve the send queues of connections with watches.
type Queues struct {
	workers *sendqueue.Workers // one for each processor

	// The in-process connection, which all HTTP requests share, has one queue for each worker.
	local  []*sendqueue.Queue
	latest atomic.Uint32 // counts the in-process RPCs
}

func newQueues() *Queues {
	q := &Queues{workers: sendqueue.Start(runtime.GOMAXPROCS(0))}
	for range q.workers.Len() {
		q.local = append(q.local, q.workers.NewQueue())
	}
	return q
}

// Of returns the send queue of a connection. It returns one of those of the in-process connection, in
// turn, if the connection is nil.
func (q *Queues) Of(conn *frames.Conn) *sendqueue.Queue {
	if conn == nil {
		return q.local[q.latest.Add(1)%uint32(len(q.local))]
	}
	return conn.Attached(func() any { return q.workers.NewQueue() }).(*sendqueue.Queue)
}
