package sendqueue

import (
	"cmp"
	"sync"
	"time"
)

// Queue holds the ready tasks of one connection.
type Queue struct {
	id     uint32 // in order of creation
	worker *worker

	mu     sync.Mutex
	ready  []*Task // guarded by mu
	spare  []*Task // guarded by mu: empty memory for the tasks that become ready next
	queued bool    // guarded by mu: the worker has the queue in its list, or is running its tasks
}

// Worker returns the number of the worker, from 0.
func (q *Queue) Worker() int { return q.worker.number }

// Sibling returns a new queue of the same worker, which takes turns with this one.
func (q *Queue) Sibling() *Queue { return &Queue{worker: q.worker} }

// SameWorker reports whether both queues share a worker, so their tasks never overlap.
func (q *Queue) SameWorker(other *Queue) bool { return q.worker == other.worker }

// Idle reports whether no other queue waits for the worker. Tasks of this queue call it while
// they run.
func (q *Queue) Idle() bool { return q.worker.waiting.Load() == 0 }

// Compare orders queues by their creation. Callers use it to serve the tasks of one queue
// together.
func (q *Queue) Compare(other *Queue) int { return cmp.Compare(q.id, other.id) }

// Task is a function that runs on the worker of its queue each time it is ready.
type Task struct {
	queue  *Queue
	run    func(now time.Time)
	queued bool // guarded by queue.mu
}

// NewTask returns a task of the queue. The worker calls run after [Task.Ready], never twice
// at the same time. It passes the current time, because reading the clock costs something.
// A panic of run is not recovered: only run knows what to end then.
func (q *Queue) NewTask(run func(now time.Time)) Task { return Task{queue: q, run: run} }

// Queue returns the queue of the task.
func (t *Task) Queue() *Queue { return t.queue }

// Ready makes the task run soon. A task that is already ready runs once. A task that is
// running runs again. Ready never waits, and any goroutine may call it.
func (t *Task) Ready() {
	q := t.queue
	q.mu.Lock()
	if t.queued {
		q.mu.Unlock()
		return
	}
	t.queued = true
	q.ready = append(q.ready, t)
	wake := !q.queued
	q.queued = true
	q.mu.Unlock()
	if wake {
		q.worker.enqueue(q)
	}
}

// take returns the ready tasks. The caller passes the slice to finish afterwards.
func (q *Queue) take() []*Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.ready
	q.ready, q.spare = q.spare, nil
	for _, t := range taken {
		t.queued = false
	}
	return taken
}

// finish takes back the memory of the tasks that ran, and reports whether others have
// become ready meanwhile. If not, the worker drops the queue from its list.
func (q *Queue) finish(taken []*Task) (more bool) {
	clear(taken)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = taken[:0]
	q.queued = len(q.ready) > 0
	return q.queued
}
