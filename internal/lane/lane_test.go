package lane_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/lane"
)

// start starts workers for a test.
func start(t *testing.T, n int) *lane.Workers {
	t.Helper()
	w := lane.Start(n)
	t.Cleanup(w.Stop)
	return w
}

// held returns a task of the lane that says when it has begun and then waits until it
// may end.
func held(on *lane.Lane) (task *lane.Task, begun, end chan struct{}) {
	begun, end = make(chan struct{}), make(chan struct{})
	one := on.Task(func(time.Time) {
		begun <- struct{}{}
		<-end
	})
	return &one, begun, end
}

// noting returns a task of the lane that notes its name each time it runs.
func noting(on *lane.Lane, name string, runs chan<- string) *lane.Task {
	task := on.Task(func(time.Time) { runs <- name })
	return &task
}

// drain returns what was noted when the lane has done everything.
func drain(on *lane.Lane, runs chan string) []string {
	done := make(chan struct{})
	last := on.Task(func(time.Time) { close(done) })
	last.Ready()
	<-done
	var all []string
	for len(runs) > 0 {
		all = append(all, <-runs)
	}
	return all
}

func TestATaskRunsOnceForAllThatCameBeforeItRuns(t *testing.T) {
	on := start(t, 1).Lane()
	first, begun, end := held(on)
	first.Ready()
	<-begun
	runs := make(chan string, 10)
	task := noting(on, "a", runs)
	for range 3 {
		task.Ready()
	}
	close(end)
	if got := drain(on, runs); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it ran %d times, want once", len(got))
	}
	task.Ready()
	if got := drain(on, runs); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the next time it ran %d times, want once", len(got))
	}
}

func TestATaskThatBecomesReadyWhileItRunsRunsAgain(t *testing.T) {
	on := start(t, 1).Lane()
	task, begun, end := held(on)
	task.Ready()
	<-begun
	task.Ready()
	task.Ready()
	end <- struct{}{}
	<-begun // it runs again
	end <- struct{}{}
	if got := drain(on, make(chan string)); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// What becomes ready on a lane while its worker is at it comes behind what is ready on
// others. So a connection with very many watches keeps the others waiting for one round.
func TestLanesTakeTurns(t *testing.T) {
	workers := start(t, 1)
	busy, other := workers.Lane(), workers.Lane()
	first, begun, end := held(busy)
	first.Ready()
	<-begun
	runs := make(chan string, 10)
	noting(other, "other 1", runs).Ready()
	noting(busy, "busy 1", runs).Ready()
	noting(busy, "busy 2", runs).Ready()
	noting(other, "other 2", runs).Ready()
	close(end)
	if got, want := drain(busy, runs), []string{"other 1", "other 2", "busy 1", "busy 2"}; !slices.Equal(got, want) {
		t.Errorf("they ran in the order %v, want %v", got, want)
	}
}

func TestLanesAreSpreadOverWorkers(t *testing.T) {
	workers := start(t, 3)
	count := make([]int, workers.Len())
	for range 30 {
		count[workers.Lane().Worker()]++
	}
	if !slices.Equal(count, []int{10, 10, 10}) {
		t.Errorf("the workers have %v lanes, want ten each", count)
	}
}

// A task that does not end keeps its worker, and nobody else.
func TestWorkersDoNotWaitForEachOther(t *testing.T) {
	workers := start(t, 2)
	stuck, other := workers.Lane(), workers.Lane()
	task, begun, end := held(stuck)
	task.Ready()
	<-begun
	runs := make(chan string, 1)
	noting(other, "other", runs).Ready()
	<-runs
	close(end)
}

// A task finds out whether others wait for its worker.
func TestATaskKnowsWhetherOthersWait(t *testing.T) {
	workers := start(t, 1)
	on := workers.Lane()
	begun, look, alone := make(chan struct{}), make(chan struct{}), make(chan bool)
	task := on.Task(func(time.Time) {
		begun <- struct{}{}
		<-look
		alone <- on.Alone()
	})
	for _, others := range []int{0, 1, 0} {
		task.Ready()
		<-begun
		runs := make(chan string, 1)
		for range others {
			noting(workers.Lane(), "other", runs).Ready()
		}
		look <- struct{}{}
		if got := <-alone; got != (others == 0) {
			t.Errorf("beside %d others it is alone: %v", others, got)
		}
		for range others {
			<-runs
		}
	}
}

func TestStopWaitsForWhatRunsAndDoesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		workers := lane.Start(1)
		task, begun, end := held(workers.Lane())
		task.Ready()
		<-begun
		runs := make(chan string, 1)
		noting(workers.Lane(), "late", runs).Ready()
		var stopped atomic.Bool
		go func() {
			workers.Stop()
			stopped.Store(true)
		}()
		synctest.Wait()
		if stopped.Load() {
			t.Error("it has stopped while a task runs")
		}
		close(end)
		synctest.Wait()
		if !stopped.Load() {
			t.Error("it has not stopped though nothing runs any more")
		}
		if len(runs) > 0 {
			t.Error("a task has run that had not begun when it stopped")
		}
		task.Ready() // does no harm
	})
}

// Whatever is done before Ready is seen by a run after it, and never by two at once,
// while everybody makes everything ready.
func TestNoTaskIsForgottenAndNoTwoOfALaneRunAtOnce(t *testing.T) {
	const lanes, tasks, makers, rounds = 8, 16, 4, 500
	workers := start(t, 3)
	type counted struct {
		lane.Task
		made atomic.Int64
		seen int64 // by the lane
	}
	var all []*counted
	var done sync.WaitGroup
	done.Add(lanes * tasks)
	for range lanes {
		on, running := workers.Lane(), 0 // not atomic: the race detector looks at it, too
		for range tasks {
			one := &counted{}
			one.Task = on.Task(func(time.Time) {
				if running++; running != 1 {
					t.Error("two tasks of a lane run at once")
				}
				before := one.seen
				if one.seen = one.made.Load(); one.seen == makers*rounds && before < one.seen {
					done.Done()
				}
				running--
			})
			all = append(all, one)
		}
	}
	for range makers {
		go func() {
			for range rounds {
				for _, one := range all {
					one.made.Add(1)
					one.Ready()
				}
			}
		}()
	}
	done.Wait()
}

// A lane keeps its memory for itself: if that went from one lane to the next, all would
// have as much as the largest one needs, which would make more each time.
func TestABusyLaneAllocatesNothing(t *testing.T) {
	const many, few, quiet = 1000, 1, 20
	workers := start(t, 1)
	var done sync.WaitGroup
	var all []*lane.Task
	add := func(on *lane.Lane, tasks int) {
		for range tasks {
			one := on.Task(func(time.Time) { done.Done() })
			all = append(all, &one)
		}
	}
	add(workers.Lane(), many)
	for range quiet {
		add(workers.Lane(), few)
	}
	round := func() {
		done.Add(len(all))
		for _, one := range all {
			one.Ready()
		}
		done.Wait()
	}
	for range 3 {
		round() // a lane grows to what it needs
	}
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("a round allocates %v times", n)
	}
}

func TestATaskIsToldTheTime(t *testing.T) {
	on := start(t, 1).Lane()
	times := make(chan time.Time)
	task := on.Task(func(now time.Time) { times <- now })
	before := time.Now()
	task.Ready()
	if now := <-times; now.Before(before) || now.After(time.Now()) {
		t.Errorf("it was told %v, which is not between %v and now", now, before)
	}
}
