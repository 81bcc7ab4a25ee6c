package lane

import (
	"sync"
	"time"
)

// Lane is the work of one connection.
type Lane struct {
	number int // of the worker
	worker *worker

	mu     sync.Mutex
	ready  []*Task // guarded by mu
	spare  []*Task // guarded by mu: empty memory, for those that become ready next
	queued bool    // guarded by mu: the lane is in its worker's queue, or the worker is at it
}

// Worker returns the number of the worker, from 0.
func (l *Lane) Worker() int { return l.number }

// Task is something that is done on a lane each time it is ready.
type Task struct {
	lane   *Lane
	run    func(now time.Time)
	queued bool // guarded by lane.mu
}

// Task returns a task of the lane. run is called by one goroutine at a time, and only
// after [Task.Ready]. It is told the time, which it costs something to ask for.
func (l *Lane) Task(run func(now time.Time)) Task { return Task{lane: l, run: run} }

// Ready has the task run soon. If it is about to run anyway, that is enough; if it is
// running, it runs again. It never waits, and may be called by anybody at any time.
func (t *Task) Ready() {
	one := [...]*Task{t}
	t.lane.makeReady(one[:])
}

// ReadyAll is [Task.Ready] for many, which costs less where those of one lane are next to
// each other.
func ReadyAll(tasks []*Task) {
	for len(tasks) > 0 {
		l, n := tasks[0].lane, 1
		for n < len(tasks) && tasks[n].lane == l {
			n++
		}
		l.makeReady(tasks[:n])
		tasks = tasks[n:]
	}
}

func (l *Lane) makeReady(tasks []*Task) {
	l.mu.Lock()
	for _, t := range tasks {
		if !t.queued {
			t.queued = true
			l.ready = append(l.ready, t)
		}
	}
	wake := !l.queued && len(l.ready) > 0
	l.queued = l.queued || wake
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
