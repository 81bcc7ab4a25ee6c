package sendqueue

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Workers run the tasks of all queues.
type Workers struct {
	workers []*worker
	created atomic.Uint32 // queues; spreads them over the workers
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// Start starts n workers. The caller must stop them.
func Start(n int) *Workers {
	ctx, stop := context.WithCancel(context.Background())
	w := &Workers{stop: stop}
	for i := range n {
		one := &worker{number: i, signal: make(chan struct{}, 1)}
		w.workers = append(w.workers, one)
		w.done.Go(func() { one.work(ctx) })
	}
	return w
}

// Stop returns when no task runs any more. Tasks that are ready but have not begun do not
// run.
func (w *Workers) Stop() {
	w.stop()
	w.done.Wait()
}

// Len returns the number of workers.
func (w *Workers) Len() int { return len(w.workers) }

// NewQueue returns a new queue. The workers take turns in getting one.
func (w *Workers) NewQueue() *Queue {
	id := w.created.Add(1)
	// Unsigned, because the id does not fit into an int of 32 bits.
	return &Queue{id: id, worker: w.workers[id%uint32(len(w.workers))]}
}

// tasksPerClock is the number of tasks that get the same time.
const tasksPerClock = 32

type worker struct {
	number int

	mu     sync.Mutex
	queues []*Queue      // guarded by mu: those that have ready tasks
	signal chan struct{} // capacity 1: there are queues that the worker has not seen

	waiting atomic.Int32 // queues that have ready tasks, without the one being served
}

func (w *worker) enqueue(q *Queue) {
	w.waiting.Add(1)
	w.mu.Lock()
	w.queues = append(w.queues, q)
	w.mu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// work runs ready tasks until ctx is done. Queues take turns: a task that becomes ready
// while the worker serves its queue runs after the ready tasks of the other queues.
func (w *worker) work(ctx context.Context) {
	var queues []*Queue
	for {
		select {
		case <-w.signal:
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
		queues, w.queues = w.queues, queues[:0]
		w.mu.Unlock()
		for i, q := range queues {
			if ctx.Err() != nil {
				return
			}
			w.serve(q)
			queues[i] = nil
		}
	}
}

// serve runs the ready tasks of a queue.
func (w *worker) serve(q *Queue) {
	w.waiting.Add(-1)
	tasks := q.take()
	for some := range slices.Chunk(tasks, tasksPerClock) {
		now := time.Now()
		for _, t := range some {
			t.run(now)
		}
	}
	if q.finish(tasks) {
		w.enqueue(q)
	}
}
