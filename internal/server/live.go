package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/lane"
)

// live is the watcher of a cached resource. While there is something to do for it alone,
// such as a catch-up, its handler does that: next returns the messages. While it is told
// what happens, the worker of its connection sends them, with those of the other watches
// of the connection, and the handler waits until that ends.
//
// A worker has no time to wait. gRPC makes who sends wait when 64 KiB of a stream have
// not been written to the buffer of the connection, so the worker keeps what may be on
// its way below that: of some messages it has gRPC tell when they are written. What
// happens meanwhile is in the next message. A client that does not read has a few
// messages on their way, and costs nobody any time.
type live struct {
	*dispatch.Watcher
	of *watching

	mu      sync.Mutex
	serving bool  // guarded by mu: the worker serves, and nobody else
	onWay   int   // guarded by mu: bytes that may not have been written yet
	covered int   // guarded by mu: those of them that have been when the flight is over
	failure error // guarded by mu: what the worker has failed with; the watcher says nothing any more

	task   lane.Task
	flight flight
	due    atomic.Bool   // the task is to run when the flight is over
	back   chan struct{} // capacity 1: the handler has something to do
}

const (
	// mostOnWay is how much may be on its way before a worker waits for it to be
	// written. It is far below gRPC's 64 KiB, because each message on its way costs some
	// memory more than the events that it shares with others.
	mostOnWay = 16 << 10

	// someOnWay is how much may be on its way before a worker has gRPC tell when it is
	// written. That costs memory for a moment, so it is not done for each message.
	someOnWay = 4 << 10
)

func (l *live) init(on *lane.Lane, of *watching) {
	l.of = of
	l.flight.init(l.landed)
	l.task = on.Task(l.run)
}

// next returns the next message if the handler has to send it.
func (l *live) next() (m dispatch.Message, ok bool, err error) {
	if m, ok, err = l.Try(); ok || err != nil {
		return m, ok, err
	}
	select {
	case <-l.Stopped():
		err = dispatch.ErrStopped
	default:
	}
	return m, false, err
}

// wait has the worker tell the client what happens, until there is something that the
// handler has to do. It returns an error if the worker has failed.
func (l *live) wait() error {
	l.begin()
	l.task.Ready()
	select {
	case <-l.back:
	case <-l.Stopped():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = false
	return l.failure // whatever else ends the watch: its position may be ahead of what was sent
}

func (l *live) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = true
	if !l.flight.over() {
		l.onWay = max(l.onWay, mostOnWay) // what the handler has sent
		l.covered = l.onWay
	}
}

// run is what the worker does when the watch is ready.
func (l *live) run(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.serving {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			l.failure = l.of.server.panicked(l.of.ctx, p)
			l.handBack()
		}
	}()
	if !l.tell(now) {
		l.handBack()
	}
}

func (l *live) handBack() {
	l.serving = false
	l.handBackNow()
}

// handBackNow has the handler look what there is to do.
func (l *live) handBackNow() {
	select {
	case l.back <- struct{}{}:
	default: // it is about to
	}
}

// tell sends the next message if there is one, and reports whether the worker can go on.
func (l *live) tell(now time.Time) bool {
	if l.covered > 0 && l.flight.over() {
		l.onWay -= l.covered
		l.covered = 0
	}
	if l.onWay >= mostOnWay {
		l.afterFlight()
		return true
	}
	told, outcome := l.Poll(now)
	reason, _ := l.of.ends.why()
	switch {
	case isDenied(reason):
		return false // what happened when the right was gone may be among it
	case outcome == dispatch.Nothing:
		return true
	case outcome == dispatch.Elsewhere:
		return false
	}
	if l.failure = l.send(told, now); l.failure != nil {
		return false
	}
	if reason != nil {
		return false // the last word is for the handler
	}
	if !l.Settle(now) {
		l.task.Ready()
	}
	return true
}

// send hands a message to gRPC, which has room for it.
func (l *live) send(told *dispatch.Telling, now time.Time) error {
	p := told.Form(pack).(*parcel)
	l.onWay += p.size
	if l.onWay >= mostOnWay || l.onWay >= someOnWay && l.covered == 0 {
		l.flight.Ref()
		l.covered = l.onWay
		return l.of.outlet.hand(&told.Message, p.with(&l.flight), p.size, now)
	}
	return l.of.outlet.hand(&told.Message, p, p.size, now)
}

// afterFlight has the task run when the flight is over.
func (l *live) afterFlight() {
	l.due.Store(true)
	if l.flight.over() {
		l.landed()
	}
}

func (l *live) landed() {
	if l.due.CompareAndSwap(true, false) {
		l.task.Ready()
	}
}
