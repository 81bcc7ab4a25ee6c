package server

import (
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
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
	*dispatch.Watcher // nil: of a resource without a cache
	of                *watching

	onWay   int32 // guarded by session.mu: bytes that may not have been written yet
	covered int32 // the same: those of them that have been when the flight is over
	serving bool  // the same: the worker serves, and nobody else

	due     atomic.Bool // the task is to run when the flight is over
	failure error       // guarded by session.mu: what the worker has failed with; the watcher says nothing any more
	task    sendqueue.Task
	flight  flight
	back    chan struct{} // capacity 1: the handler has something to do
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

func (l *live) init(on *sendqueue.Queue, of *watching) {
	l.of = of
	l.flight.init(l.landed)
	l.task = on.NewTask(l.run)
}

// onItsWay returns the flight of what the handler sends, or nil where nobody asks what is
// on its way.
func (l *live) onItsWay() *flight {
	if l.Watcher == nil {
		return nil
	}
	return &l.flight
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
	mu := &l.of.session.mu
	mu.Lock()
	defer mu.Unlock()
	l.serving = false
	return l.failure // whatever else ends the watch: its position may be ahead of what was sent
}

func (l *live) begin() {
	mu := &l.of.session.mu
	mu.Lock()
	defer mu.Unlock()
	l.serving = true
	if !l.flight.over() {
		l.onWay = max(l.onWay, mostOnWay) // what the handler has sent
		l.covered = l.onWay
	}
}

// Task implements [dispatch.Follower].
func (l *live) Task() *sendqueue.Task { return &l.task }

// Near implements [dispatch.Follower].
func (l *live) Near() int {
	seen := 0
	if l.of.ends.reason.Load() != nil {
		seen++
	}
	if l.of.stream.Context() != nil {
		seen++
	}
	return seen
}

// Tell implements [dispatch.Follower].
func (l *live) Tell(t *dispatch.Telling, now time.Time) (reply dispatch.Reply) {
	mu := &l.of.session.mu
	mu.Lock()
	defer mu.Unlock()
	defer l.rescue(&reply)
	if !l.serving || !l.room() {
		return dispatch.Leaves
	}
	reason, _ := l.of.ends.why()
	if apierr.IsDenied(reason) {
		return l.handBack() // what happened when the right was gone may be among it
	}
	switch l.Take(t, now) {
	case dispatch.Nothing:
		return dispatch.Stays
	case dispatch.Elsewhere:
		l.task.Ready()
		return dispatch.Leaves
	}
	return l.send(t, reason, now)
}

// Told implements [dispatch.Follower].
func (l *live) Told(t *dispatch.Telling, n int, now time.Time) {
	l.of.tally.note(&t.Message, n, parcelOf(t).size, false, now)
}

// run is what the worker does when the watch has to be looked after by itself.
func (l *live) run(now time.Time) {
	mu := &l.of.session.mu
	mu.Lock()
	defer mu.Unlock()
	var reply dispatch.Reply
	defer l.rescue(&reply)
	if !l.serving || !l.room() {
		return
	}
	told, outcome := l.Poll(now)
	reason, _ := l.of.ends.why()
	switch {
	case apierr.IsDenied(reason), outcome == dispatch.Elsewhere:
		l.handBack()
		return
	case outcome == dispatch.Nothing:
		return
	}
	if reply = l.send(told, reason, now); reply == dispatch.Leaves {
		return
	}
	l.Told(told, 1, now)
	if !l.Settle(now) {
		l.task.Ready()
	}
}

// rescue ends the watch if something panics.
func (l *live) rescue(reply *dispatch.Reply) {
	if p := recover(); p != nil {
		l.failure = l.of.server.interceptors.Recovered(l.of.ends.Context, p)
		*reply = l.handBack()
	}
}

// room reports whether another message may be on its way. If not, the worker looks after
// the watch when there is room.
func (l *live) room() bool {
	if l.covered > 0 && l.flight.over() {
		l.onWay -= l.covered
		l.covered = 0
	}
	if l.onWay < mostOnWay {
		return true
	}
	l.afterFlight()
	return false
}

// handBack has the handler do what there is to do.
func (l *live) handBack() dispatch.Reply {
	l.serving = false
	l.handBackNow()
	return dispatch.Leaves
}

// handBackNow has the handler look what there is to do.
func (l *live) handBackNow() {
	select {
	case l.back <- struct{}{}:
	default: // it is about to
	}
}

// send hands a message to gRPC, which has room for it. reason is why the watch has to end,
// or nil: the last word is for the handler.
func (l *live) send(t *dispatch.Telling, reason error, now time.Time) dispatch.Reply {
	p := parcelOf(t)
	var message any = p
	l.onWay += int32(p.size)
	if l.onWay >= mostOnWay || l.onWay >= someOnWay && l.covered == 0 {
		l.flight.Ref()
		l.covered = l.onWay
		message = p.with(&l.flight)
	}
	if err := l.of.stream.SendMsg(message); err != nil {
		l.failure = err
		return l.handBack()
	}
	l.of.note(&t.Message, p.size)
	if reason != nil {
		l.Told(t, 1, now)
		return l.handBack()
	}
	return dispatch.Took
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
