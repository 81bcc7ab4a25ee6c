package sendqueue_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// start starts n workers for a test.
func start(t *testing.T, n int) *sendqueue.Workers {
	t.Helper()
	w := sendqueue.Start(n)
	t.Cleanup(w.Stop)
	return w
}

// blockingTask returns a task that sends to begun when it begins, and returns when it has
// received from end.
func blockingTask(q *sendqueue.Queue) (task *sendqueue.Task, begun, end chan struct{}) {
	begun, end = make(chan struct{}), make(chan struct{})
	one := q.NewTask(func(time.Time) {
		begun <- struct{}{}
		<-end
	})
	return &one, begun, end
}

// recordingTask returns a task that sends its name each time it runs.
func recordingTask(q *sendqueue.Queue, name string, runs chan<- string) *sendqueue.Task {
	task := q.NewTask(func(time.Time) { runs <- name })
	return &task
}

// drain waits until the ready tasks of the queue have run, and returns the recorded names.
func drain(q *sendqueue.Queue, runs chan string) []string {
	done := make(chan struct{})
	last := q.NewTask(func(time.Time) { close(done) })
	last.Ready()
	<-done
	var all []string
	for len(runs) > 0 {
		all = append(all, <-runs)
	}
	return all
}

func TestReadyTaskRunsOnceForSeveralCalls(t *testing.T) {
	q := start(t, 1).NewQueue()
	first, begun, end := blockingTask(q)
	first.Ready()
	<-begun
	runs := make(chan string, 10)
	task := recordingTask(q, "a", runs)
	for range 3 {
		task.Ready()
	}
	close(end)
	if got := drain(q, runs); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %d runs, want 1", len(got))
	}
	task.Ready()
	if got := drain(q, runs); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %d more runs, want 1", len(got))
	}
}

func TestTaskReadiedWhileItRunsRunsAgain(t *testing.T) {
	q := start(t, 1).NewQueue()
	task, begun, end := blockingTask(q)
	task.Ready()
	<-begun
	task.Ready()
	task.Ready()
	end <- struct{}{}
	<-begun // the second run
	end <- struct{}{}
	if got := drain(q, make(chan string)); len(got) > 0 {
		t.Errorf("got more runs: %v", got)
	}
}

// A connection with very many watches delays the other connections by one round only.
func TestQueuesTakeTurns(t *testing.T) {
	workers := start(t, 1)
	busy, other := workers.NewQueue(), workers.NewQueue()
	first, begun, end := blockingTask(busy)
	first.Ready()
	<-begun
	runs := make(chan string, 10)
	recordingTask(other, "other 1", runs).Ready()
	recordingTask(busy, "busy 1", runs).Ready()
	recordingTask(busy, "busy 2", runs).Ready()
	recordingTask(other, "other 2", runs).Ready()
	close(end)
	if got, want := drain(busy, runs), []string{"other 1", "other 2", "busy 1", "busy 2"}; !slices.Equal(got, want) {
		t.Errorf("got the order %v, want %v", got, want)
	}
}

func TestQueuesAreSpreadOverWorkers(t *testing.T) {
	workers := start(t, 3)
	count := make([]int, workers.Len())
	for range 30 {
		count[workers.NewQueue().Worker()]++
	}
	if !slices.Equal(count, []int{10, 10, 10}) {
		t.Errorf("got %v queues per worker, want 10 each", count)
	}
}

func TestStuckTaskBlocksOnlyItsWorker(t *testing.T) {
	workers := start(t, 2)
	stuck, other := workers.NewQueue(), workers.NewQueue()
	task, begun, end := blockingTask(stuck)
	task.Ready()
	<-begun
	runs := make(chan string, 1)
	recordingTask(other, "other", runs).Ready()
	<-runs
	close(end)
}

func TestQueueIsIdleWhileNoOtherWaits(t *testing.T) {
	workers := start(t, 1)
	q := workers.NewQueue()
	begun, look, idle := make(chan struct{}), make(chan struct{}), make(chan bool)
	task := q.NewTask(func(time.Time) {
		begun <- struct{}{}
		<-look
		idle <- q.Idle()
	})
	for _, others := range []int{0, 1, 0} {
		task.Ready()
		<-begun
		runs := make(chan string, 1)
		for range others {
			recordingTask(workers.NewQueue(), "other", runs).Ready()
		}
		look <- struct{}{}
		if got := <-idle; got != (others == 0) {
			t.Errorf("with %d other queues waiting: got idle = %v", others, got)
		}
		for range others {
			<-runs
		}
	}
}

func TestStopWaitsForTheRunningTaskAndRunsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		workers := sendqueue.Start(1)
		task, begun, end := blockingTask(workers.NewQueue())
		task.Ready()
		<-begun
		runs := make(chan string, 1)
		recordingTask(workers.NewQueue(), "late", runs).Ready()
		var stopped atomic.Bool
		go func() {
			workers.Stop()
			stopped.Store(true)
		}()
		synctest.Wait()
		if stopped.Load() {
			t.Error("Stop returned while a task runs")
		}
		close(end)
		synctest.Wait()
		if !stopped.Load() {
			t.Error("Stop does not return although no task runs")
		}
		if len(runs) > 0 {
			t.Error("a task ran that had not begun before Stop")
		}
		task.Ready() // harmless after Stop
	})
}

// A run sees everything that was done before Ready, and runs of one queue never overlap,
// while several goroutines make all tasks ready.
func TestNoReadyIsLostAndTasksOfAQueueNeverOverlap(t *testing.T) {
	const queues, tasks, callers, rounds = 8, 16, 4, 500
	workers := start(t, 3)
	type countingTask struct {
		sendqueue.Task
		readied atomic.Int64
		seen    int64 // by the task
	}
	var all []*countingTask
	var done sync.WaitGroup
	done.Add(queues * tasks)
	for range queues {
		q, running := workers.NewQueue(), 0 // not atomic, so the race detector checks it, too
		for range tasks {
			one := &countingTask{}
			one.Task = q.NewTask(func(time.Time) {
				if running++; running != 1 {
					t.Error("two tasks of a queue run at once")
				}
				before := one.seen
				if one.seen = one.readied.Load(); one.seen == callers*rounds && before < one.seen {
					done.Done()
				}
				running--
			})
			all = append(all, one)
		}
	}
	for range callers {
		go func() {
			for range rounds {
				for _, one := range all {
					one.readied.Add(1)
					one.Ready()
				}
			}
		}()
	}
	done.Wait()
}

// Each queue keeps its own memory. If slices moved between queues, all of them would grow
// to what the largest one needs, and every round would allocate.
func TestBusyQueuesAllocateNothing(t *testing.T) {
	const many, few, quiet = 1000, 1, 20
	workers := start(t, 1)
	var done sync.WaitGroup
	var all []*sendqueue.Task
	add := func(q *sendqueue.Queue, tasks int) {
		for range tasks {
			one := q.NewTask(func(time.Time) { done.Done() })
			all = append(all, &one)
		}
	}
	add(workers.NewQueue(), many)
	for range quiet {
		add(workers.NewQueue(), few)
	}
	round := func() {
		done.Add(len(all))
		for _, one := range all {
			one.Ready()
		}
		done.Wait()
	}
	for range 3 {
		round() // the queues grow to what they need
	}
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("got %v allocations per round, want 0", n)
	}
}

func TestTaskGetsTheCurrentTime(t *testing.T) {
	q := start(t, 1).NewQueue()
	times := make(chan time.Time)
	task := q.NewTask(func(now time.Time) { times <- now })
	before := time.Now()
	task.Ready()
	if now := <-times; now.Before(before) || now.After(time.Now()) {
		t.Errorf("got %v, want a time from %v on", now, before)
	}
}
