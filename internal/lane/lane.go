package lane

import (
	"cmp"
	"sync"
	"time"
)

// Lane is the work of one connection.
type Lane struct {
	id     uint32 // counts the lanes of the workers
	number int    // of the worker
	worker *worker

	mu     sync.Mutex
	ready  []*Task // guarded by mu
	spare  []*Task // guarded by mu: empty memory, for those that become ready next
	queued bool    // guarded by mu: the lane is in its worker's queue, or the worker is at it
}

// Worker returns the number of the worker, from 0.
func (l *Lane) Worker() int { return l.number }

// Another returns another lane of the same worker, which takes turns with this one.
func (l *Lane) Another() *Lane { return &Lane{number: l.number, worker: l.worker} }

// Beside reports whether two lanes are of the same worker, so that nothing is done on one
// while something is done on the other.
func (l *Lane) Beside(other *Lane) bool { return l.worker == other.worker }

// Alone reports whether no other lane waits for the worker while something is done on
// this one.
func (l *Lane) Alone() bool { return l.worker.waiting.Load() == 0 }

// Compare orders lanes by when they were made. It is for those who want to do together
// what is of one lane.
func (l *Lane) Compare(other *Lane) int { return cmp.Compare(l.id, other.id) }

// Task is something that is done on a lane each time it is ready.
type Task struct {
	lane   *Lane
	run    func(now time.Time)
	queued bool // guarded by lane.mu
}

// Task returns a task of the lane. run is called by one goroutine at a time, and only
// after [Task.Ready]. It is told the time, which it costs something to ask for.
func (l *Lane) Task(run func(now time.Time)) Task { return Task{lane: l, run: run} }

// Lane returns the lane of the task.
func (t *Task) Lane() *Lane { return t.lane }

// Ready has the task run soon. If it is about to run anyway, that is enough; if it is
// running, it runs again. It never waits, and may be called by anybody at any time.
func (t *Task) Ready() {
	l := t.lane
	l.mu.Lock()
	if t.queued {
		l.mu.Unlock()
		return
	}
	t.queued = true
	l.ready = append(l.ready, t)
	wake := !l.queued
	l.queued = true
	l.mu.Unlock()
	if wake {
		l.worker.enqueue(l)
	}
}

// take returns the tasks that are ready. Their memory has to be brought back with rest.
func (l *Lane) take() []*Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.ready
	l.ready, l.spare = l.spare, nil
	for _, t := range taken {
		t.queued = false
	}
	return taken
}

// rest reports whether something became ready since take. If not, the lane is queued
// no longer.
func (l *Lane) rest(taken []*Task) bool {
	clear(taken)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = taken[:0]
	l.queued = len(l.ready) > 0
	return l.queued
}
