package dispatch_test

import (
	"context"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// reader is what a subscriber needs of a watcher.
type reader interface {
	Next(ctx context.Context) (dispatch.Message, error)
	Position() object.Position
	Close()
}

// follower serves a watcher as the server does: the worker of a lane tells it what
// happens, until what is to be said is elsewhere; then a handler tries until there is
// nothing, and the worker is at it again. It is told one message each time Next is called,
// so that nothing is told before it is asked for.
type follower struct {
	watcher *dispatch.Watcher
	task    sendqueue.Task
	out     chan *dispatch.Telling // capacity 1
	back    chan struct{}          // capacity 1

	mu      sync.Mutex
	serving bool   // guarded by mu: the worker is to tell it
	asked   bool   // guarded by mu: of one message
	counts  counts // guarded by mu
}

// counts says how often something happened.
type counts map[string]int

// What can happen to a follower.
const (
	polled      = "polled, and settled"
	polledMore  = "polled, and there is more"
	nothing     = "polled for nothing"
	elsewhere   = "what is to be told is elsewhere"
	taken       = "took what others are told"
	known       = "knows what others are told"
	differs     = "others are told something else"
	left        = "left"
	interrupted = "was told while it gave up"
)

func follow(d *dispatch.Dispatcher, on *sendqueue.Queue, i dispatch.Interest, b dispatch.Begin, o dispatch.Options, c counts) *follower {
	f := &follower{out: make(chan *dispatch.Telling, 1), back: make(chan struct{}, 1), counts: c}
	f.task = on.NewTask(f.run)
	o.Follower = f
	f.watcher = d.Watch(i, b, o)
	return f
}

// Task implements [dispatch.Follower].
func (f *follower) Task() *sendqueue.Task { return &f.task }

// Tell implements [dispatch.Follower].
func (f *follower) Tell(t *dispatch.Telling, now time.Time) dispatch.Reply {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.serving || !f.asked {
		f.counts[left]++
		return dispatch.Leaves
	}
	switch f.watcher.Take(t, now) {
	case dispatch.Nothing:
		f.counts[known]++
		return dispatch.Stays
	case dispatch.Elsewhere:
		f.counts[differs]++
		f.task.Ready()
		return dispatch.Leaves
	}
	f.counts[taken]++
	f.hand(t)
	return dispatch.Took
}

// Near implements [dispatch.Follower].
func (f *follower) Near() int { return 0 }

// Told implements [dispatch.Follower].
func (f *follower) Told(*dispatch.Telling, int, time.Time) {}

// run is what the worker does when the follower has to be looked after by itself.
func (f *follower) run(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.serving || !f.asked {
		return
	}
	t, outcome := f.watcher.Poll(now)
	switch outcome {
	case dispatch.Nothing:
		f.counts[nothing]++
		return
	case dispatch.Elsewhere:
		f.counts[elsewhere]++
		f.serving = false
		f.back <- struct{}{}
		return
	}
	f.hand(t)
	if f.watcher.Settle(now) {
		f.counts[polled]++
	} else {
		f.counts[polledMore]++
		f.task.Ready()
	}
}

func (f *follower) hand(t *dispatch.Telling) {
	f.asked = false
	f.out <- t
}

// Next waits for the next message, as [dispatch.Watcher.Next] does.
func (f *follower) Next(ctx context.Context) (dispatch.Message, error) {
	for {
		if !f.serve() {
			if m, ok, err := f.watcher.Try(); ok || err != nil {
				return m, err
			}
			f.begin()
		}
		f.task.Ready()
		select {
		case t := <-f.out:
			return t.Message, nil
		case <-f.back:
		case <-ctx.Done():
			return f.giveUp(ctx.Err())
		case <-f.watcher.Stopped():
			return f.giveUp(dispatch.ErrStopped)
		}
	}
}

// serve asks the worker for a message, and reports whether it serves.
func (f *follower) serve() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = true
	return f.serving
}

func (f *follower) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serving = true
}

// giveUp takes the watcher back from the worker. What that has told meanwhile counts.
func (f *follower) giveUp(err error) (dispatch.Message, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serving, f.asked = false, false
	select {
	case <-f.back:
	default:
	}
	select {
	case t := <-f.out:
		f.counts[interrupted]++
		return t.Message, nil
	default:
		return dispatch.Message{}, err
	}
}

func (f *follower) Position() object.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watcher.Position()
}

func (f *follower) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serving = false
	f.watcher.Close()
}
