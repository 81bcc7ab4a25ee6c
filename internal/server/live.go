package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/lane"
)

// live is the watcher of a cached resource. While there is something to do for it alone,
// such as a catch-up, its handler does that: Next returns the messages. While it is told
// what happens, the worker of its connection sends them, with those of the other watches
// of the connection, and Next waits until that ends.
//
// A worker has no time to wait. So it sends a message only when the one before it has
// left for the buffer of the connection; what happens meanwhile is in the next one. A
// client that does not read has one message on its way, and costs nobody any time.
type live struct {
	*dispatch.Watcher
	to     *outlet
	flight *flight
	back   chan struct{} // capacity 1: the handler has something to do
	task   lane.Task
	due    atomic.Bool // the task is to run when the flight is over

	mu      sync.Mutex
	serving bool             // guarded by mu: the worker serves, and nobody else
	failure error            // guarded by mu: what the worker has failed with
	message dispatch.Message // guarded by mu; memory for the next one
	parcel  parcel           // guarded by mu, and used by gRPC while it is on its way
}

func newLive(on *lane.Lane) *live {
	l := &live{back: make(chan struct{}, 1)}
	l.flight = newFlight(l.landing, l.landed)
	l.task = on.Task(l.run)
	return l
}

// Next implements watcher.
func (l *live) Next(ctx context.Context) (dispatch.Message, error) {
	for {
		m, ok, err := l.Try()
		if ok || err != nil {
			return m, err
		}
		if err := l.serve(ctx); err != nil {
			return dispatch.Message{}, err
		}
	}
}

// serve has the worker tell the client what happens, until there is something that the
// handler has to do, or an end.
func (l *live) serve(ctx context.Context) (err error) {
	l.mu.Lock()
	l.serving = true
	l.mu.Unlock()
	l.task.Ready()
	select {
	case <-l.back:
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.Stopped():
		err = dispatch.ErrStopped
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = false
	select {
	case <-l.back: // both has happened
	default:
	}
	if l.failure != nil {
		return l.failure
	}
	return err
}

// run is what the worker does when the watch is ready.
func (l *live) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.serving {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			l.failure = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
			l.handBack()
		}
	}()
	if !l.tell() {
		l.handBack()
	}
}

func (l *live) handBack() {
	l.serving = false
	l.back <- struct{}{}
}

// tell sends the next message if there is one, and reports whether the worker can go on.
func (l *live) tell() bool {
	if !l.flight.over() {
		l.afterFlight()
		return true
	}
	switch l.Poll(&l.message) {
	case dispatch.Nothing:
		return true
	case dispatch.Elsewhere:
		return false
	}
	if l.failure = l.to.sendNow(&l.message, &l.parcel); l.failure != nil {
		return false
	}
	clear(l.message.Events)
	if !l.Settle() {
		l.afterFlight()
	}
	return true
}

// afterFlight has the task run when nothing is on its way.
func (l *live) afterFlight() {
	l.due.Store(true)
	if l.flight.over() {
		l.landed()
	}
}

func (l *live) landing() { l.parcel.unpack() }

func (l *live) landed() {
	if l.due.CompareAndSwap(true, false) {
		l.task.Ready()
	}
}
