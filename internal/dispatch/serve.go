package dispatch

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Sink sends the messages of one watcher to its client. Calls on one sink never overlap,
// except those of Sent.
type Sink interface {
	// Reserve is called before a new watch announces its snapshot, and before each part of a
	// RESET or DELTA is sent. The first part may already be made. Reserve may wait until the
	// sink may send one.
	Reserve() error

	// Send sends a message from the goroutine of Serve. It may wait for the client.
	Send(m Message) error

	// TrySend sends a batch from a worker. It must not wait: thousands of other watchers
	// wait for the same worker. It returns [ErrFull] or [ErrNeedsHandler] if it has not
	// sent the batch. Any other error ends Serve with that error.
	TrySend(b *Batch, now time.Time) error

	// Sent counts a batch that n sinks, one of which is this one, have sent by TrySend. The
	// worker calls it once for many sinks.
	Sent(b *Batch, n int, now time.Time)
}

var (
	// ErrFull says that a sink has no room for a batch. As soon as the sink has room, it
	// calls [Watcher.Ready].
	ErrFull = errors.New("the sink is full")

	// ErrNeedsHandler says that a sink has to send the batch with Send, because it may have
	// to wait.
	ErrNeedsHandler = errors.New("the sink needs the handler")
)

// PanicError is a panic while a worker or a handler served a watcher. It ends that watcher
// only.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprint("panic: ", e.Value) }

// Guard returns the error of a function, or a [*PanicError] if it panics.
func Guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return do()
}

// OnFreshStack runs a function on a goroutine of its own and waits for it. The handlers of
// very many watches only wait, and a waiting goroutine is mostly its stack, which rarely
// shrinks back once it has grown. Work that needs a deep stack runs here, so a handler keeps
// a small one: this halves the memory of an idle watch. A panic becomes a [*PanicError].
func OnFreshStack(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- Guard(do) }()
	return <-done
}

// Serve sends the messages of the watcher to its sink. It returns nil after Stop, the error
// of the sink, [ErrStopped] when the dispatcher has stopped, a [*LostError] or
// [*EpochError] if a watcher with EveryEvent cannot have all events, or a [*PanicError].
//
// Position is not valid after an error of Send, because the cursor has passed the message,
// or after a panic. After an error of TrySend the cursor is before the batch; only the sink
// knows whether the client gets it.
func (w *Watcher) Serve() error {
	w.handedBack = make(chan struct{}, 1)
	for !w.stopping.Load() {
		if w.needsReservation() {
			if err := Guard(w.sink.Reserve); err != nil {
				return err
			}
		}
		delivered := false
		err := OnFreshStack(func() (err error) {
			delivered, err = w.sendAll()
			return err
		})
		if err == nil && delivered {
			err = w.awaitWorker()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Stop makes Serve return nil soon. Any goroutine may call it.
func (w *Watcher) Stop() {
	w.stopping.Store(true)
	w.task.Ready()
}

// Ready makes the worker look after the watcher again, after [ErrFull]. Any goroutine may
// call it.
func (w *Watcher) Ready() { w.task.Ready() }

// needsReservation reports whether Serve has to call Reserve before the next message.
func (w *Watcher) needsReservation() bool {
	return w.step == beginReset || w.step == catchingUp && w.catchUp.kind != object.Replay
}

// sendAll sends messages from the handler until everything is delivered, the next message
// needs a reservation, or Serve has to return.
func (w *Watcher) sendAll() (delivered bool, err error) {
	for !w.stopping.Load() {
		m, ok, err := w.next(time.Now())
		switch {
		case err != nil:
			return false, err
		case !ok:
			return true, nil
		}
		if err := w.sink.Send(m); err != nil {
			return false, err
		}
		if w.needsReservation() {
			return false, nil
		}
	}
	return false, nil
}

// awaitWorker hands the watcher over to the worker and waits until the worker hands it back.
func (w *Watcher) awaitWorker() (err error) {
	w.workerOwns.Store(true)
	w.task.Ready()
	select {
	case <-w.handedBack:
	case <-w.dispatcher.stopped:
		err = ErrStopped
		w.Stop()
		<-w.handedBack
	}
	if w.failure != nil {
		return w.failure // whatever else ends the watch: its position may be wrong
	}
	return err
}

// handBack gives the watcher back to its handler. Only the worker calls it, and it must not
// use the watcher afterwards.
func (w *Watcher) handBack() {
	w.workerOwns.Store(false)
	w.handedBack <- struct{}{}
}

// fail ends Serve with an error. Only the worker calls it.
func (w *Watcher) fail(err error) {
	w.failure = err
	w.handBack()
}

// run serves the watcher alone, on the worker: until it can join its group, its sink is
// full, or its handler has to continue.
func (w *Watcher) run(now time.Time) {
	if !w.workerOwns.Load() {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.group.leave(w)
			w.fail(&PanicError{p, debug.Stack()})
		}
	}()
	if w.stopping.Load() {
		w.group.leave(w)
		w.handBack()
		return
	}
	for {
		b, found := w.poll(now)
		switch found {
		case needsHandler:
			w.group.leave(w)
			w.handBack()
			return
		case heldBack:
			w.group.leave(w)
			return
		case nothing:
			if w.settle(now) {
				return
			}
			continue
		}
		if !w.trySend(b, now) {
			return
		}
		w.sink.Sent(b, 1, now)
		if b.end.full || !w.settle(now) {
			w.task.Ready() // after the tasks that are ready now
		}
		return
	}
}

// trySend sends a batch from the worker. If it returns false, the watcher has left its
// group, and the sink or the handler continues.
func (w *Watcher) trySend(b *Batch, now time.Time) bool {
	err := w.sink.TrySend(b, now)
	if err == nil {
		w.delivered(b, now)
		return true
	}
	w.group.leave(w)
	switch err {
	case ErrFull:
	case ErrNeedsHandler:
		w.handBack()
	default:
		w.fail(err)
	}
	return false
}

// offer sends a batch of the group to the watcher, if the batch is what the watcher needs
// next. It reports whether the sink has sent it and whether the watcher stays in the group.
// If the watcher does not stay, offer has made sure that it is served otherwise.
func (w *Watcher) offer(b *Batch, now time.Time) (sent, stays bool) {
	defer func() {
		if p := recover(); p != nil {
			sent, stays = false, false
			w.left()
			w.fail(&PanicError{p, debug.Stack()})
		}
	}()
	switch w.match(b) {
	case known:
		return false, true
	case other:
		w.left()
		w.task.Ready()
		return false, false
	}
	if w.timed && w.clock.holds(now) {
		w.left()
		return false, false
	}
	switch err := w.sink.TrySend(b, now); err {
	case nil:
		w.delivered(b, now)
		return true, true
	case ErrFull:
		w.left()
	case ErrNeedsHandler:
		w.left()
		w.handBack()
	default:
		w.left()
		w.fail(err)
	}
	return false, false
}

// settle lets the watcher join its group and sets its timer. It returns false if the feed
// has changed since the watcher read it. The order matters: first join, then compare the
// version. So either the group or the watcher notices a change in between.
func (w *Watcher) settle(now time.Time) bool {
	w.group.join(w)
	if w.feed.version.Load() != w.version {
		return false
	}
	w.clock.setTimer(now)
	return true
}

// found is what a worker has to do for a watcher.
type found uint8

const (
	nothing      found = iota // the client has everything
	aBatch                    // send a batch
	heldBack                  // wait for the timer: see Options.BatchDelay
	needsHandler              // the log does not have what comes next
)

// poll returns the next batch that the log has, or a bookmark. It never waits and does not
// move the cursor past events.
func (w *Watcher) poll(now time.Time) (*Batch, found) {
	if w.step != live {
		return nil, needsHandler
	}
	if w.clock.holds(now) {
		return nil, heldBack
	}
	w.version = w.feed.version.Load()
	// The order matters, as in fromLogOrWindow and in events.
	through := w.through()
	v := w.feed.view.Load()
	if !w.inLog(v) || w.mergeTo > 0 {
		return nil, needsHandler
	}
	b := w.feed.batch(batchStart{v, w.cursor, w.sent}, w.dispatcher)
	if b != nil && w.latest && w.sent == 0 && !b.distinct() {
		return nil, needsHandler
	}
	if w.everyEvent && w.cursor < w.dispatcher.cfg.Source.State().Relisted() {
		return nil, needsHandler
	}
	if b != nil {
		return b, aBatch
	}
	w.advance(batchCut{upto: w.cursor}, through)
	if m, ok := w.bookmark(now); ok {
		return &Batch{Message: m, end: batchCut{upto: w.cursor}}, aBatch
	}
	return nil, nothing
}

// fit is the result of comparing a batch of the group with what a watcher needs.
type fit uint8

const (
	fits  fit = iota // it is what comes next
	known            // the watcher has delivered it already
	other            // the watcher needs something else first, or instead
)

// match compares a batch of the group with what the watcher needs next.
func (w *Watcher) match(b *Batch) fit {
	delivered := !b.end.partial && w.cursor >= b.end.upto
	switch {
	case w.step != live, w.epoch != b.Header.Position.Epoch, w.mergeTo > 0:
		return other
	case w.sent == 0 && b.start.sent == 0 && delivered:
		return known
	case !b.follows(w.cursor, w.sent):
		return other
	case w.latest && (b.end.partial || b.start.sent > 0 || !b.distinct()):
		return other
	case w.everyEvent && w.cursor < w.dispatcher.cfg.Source.State().Relisted():
		return other
	}
	return fits
}

// delivered moves the watcher past a batch that its sink has sent.
func (w *Watcher) delivered(b *Batch, now time.Time) {
	if w.latest && b.end.partial {
		w.mergeTo = b.end.current // see fromLogOrWindow
	}
	w.cursor, w.sent = b.end.after(w.cursor, w.sent)
	w.note(b.Header.Kind, now)
}
