package dispatch

import "time"

// taskTimer makes a task ready when something is due.
type taskTimer struct {
	ready  func()      // makes the task ready
	timer  *time.Timer // nil: never set
	fireAt time.Time   // the time for which the timer was last set; zero: never set
}

// set makes the task ready at the given time, or earlier. It keeps a timer that fires earlier,
// because resetting the timer for each message costs more than one needless run of the task.
func (t *taskTimer) set(at, now time.Time) {
	if t.fireAt.After(now) && !t.fireAt.After(at) {
		return
	}
	t.fireAt = at
	if t.timer == nil {
		t.timer = time.AfterFunc(at.Sub(now), t.ready)
	} else {
		t.timer.Reset(at.Sub(now))
	}
}

func (t *taskTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
