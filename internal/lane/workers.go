package lane

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Workers do the work of all lanes.
type Workers struct {
	workers []*worker
	next    atomic.Uint32 // spreads lanes over workers
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// Start starts so many workers, which have to be stopped.
func Start(n int) *Workers {
	ctx, stop := context.WithCancel(context.Background())
	w := &Workers{stop: stop}
	for range n {
		one := &worker{signal: make(chan struct{}, 1)}
		w.workers = append(w.workers, one)
		w.done.Go(func() { one.work(ctx) })
	}
	return w
}

// Stop returns when no task runs any more. What is ready by then is not done.
func (w *Workers) Stop() {
	w.stop()
	w.done.Wait()
}

// Len returns how many workers there are.
func (w *Workers) Len() int { return len(w.workers) }

// Lane returns a new lane, of the worker whose turn it is.
func (w *Workers) Lane() *Lane {
	id := w.next.Add(1)
	n := int(id) % len(w.workers)
	return &Lane{id: id, number: n, worker: w.workers[n]}
}

// timely is how many tasks are told the same time.
const timely = 32

type worker struct {
	mu     sync.Mutex
	queue  []*Lane       // guarded by mu
	signal chan struct{} // capacity 1: the queue is not empty

	waiting atomic.Int32 // lanes that have something to do and have not had their turn
}

func (w *worker) enqueue(l *Lane) {
	w.waiting.Add(1)
	w.mu.Lock()
	w.queue = append(w.queue, l)
	first := len(w.queue) == 1
	w.mu.Unlock()
	if !first {
		return
	}
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// work does what there is to do until ctx is done. Lanes take turns: what becomes ready
// on one while the worker is at it comes after what is ready on the others.
func (w *worker) work(ctx context.Context) {
	var lanes []*Lane
	for {
		select {
		case <-w.signal:
		case <-ctx.Done():
			return
		}
		for {
			w.mu.Lock()
			lanes, w.queue = w.queue, lanes[:0]
			w.mu.Unlock()
			if len(lanes) == 0 {
				break
			}
			for i, l := range lanes {
				if ctx.Err() != nil {
					return
				}
				w.serve(l)
				lanes[i] = nil
			}
		}
	}
}

// serve runs what is ready on a lane.
func (w *worker) serve(l *Lane) {
	w.waiting.Add(-1)
	tasks := l.take()
	for some := range slices.Chunk(tasks, timely) {
		now := time.Now()
		for _, t := range some {
			t.run(now)
		}
	}
	if l.rest(tasks) {
		w.enqueue(l)
	}
}
