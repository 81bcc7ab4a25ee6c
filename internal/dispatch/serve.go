package dispatch

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Sink sends the messages of one watcher to its client. Calls on one sink never overlap,
// except calls of CountSent.
type Sink interface {
	// Reserve gets the permission to send a part of a RESET or a DELTA, and may wait for this
	// permission. Serve calls Reserve before a new watch announces its snapshot. It also
	// calls Reserve before each part of a RESET or a DELTA, unless the DELTA is small. When
	// Serve calls Reserve, the first part may already be in memory.
	Reserve() error

	// Send sends a message from the goroutine of Serve. It may wait for the client.
	Send(m Message) error

	// TrySend sends a batch from a worker. TrySend must not wait, because thousands of other
	// watchers wait for the same worker. It returns [ErrFull] or [ErrNeedsHandler] if it has
	// not sent the batch. Any other error ends Serve with that error.
	TrySend(b *Batch, now time.Time) error

	// CountSent counts the messages of n sinks that have sent the batch with TrySend. These
	// sinks belong to one feed and one worker. The worker calls CountSent of only one of
	// them.
	CountSent(b *Batch, n int, now time.Time)

	// Prefetch reads the memory that TrySend will read; see group.prefetch. It must not
	// wait or change anything. The result has no meaning.
	Prefetch() int
}

var (
	// ErrFull means that a sink has no room for a batch. As soon as the sink has room, it
	// calls [Watcher.Ready].
	ErrFull = errors.New("the sink is full")

	// ErrNeedsHandler means that only the handler can send the batch, with Send, because the
	// sink may have to wait.
	ErrNeedsHandler = errors.New("the sink needs the handler")
)

// PanicError is a panic of the worker or the handler that served a watcher. The watcher's
// Serve returns the error. If a worker panics in the work that it does once for a group, the
// Serve of each member returns the error.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprint("panic: ", e.Value) }

// Guard calls a function and returns its error, or a [*PanicError] if the function panics.
func Guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return do()
}

// OnFreshStack runs a function on a goroutine of its own and waits for its end. Most of the
// memory of a waiting goroutine is its stack, and a stack that has grown rarely shrinks.
// Handlers mostly wait. So they call OnFreshStack for work that needs a deep stack, and keep
// a small stack. This halves the memory of an idle watch. A panic becomes a [*PanicError].
func OnFreshStack(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- Guard(do) }()
	return <-done
}

// Serve sends the messages of the watcher to its sink. It returns nil after Stop, and
// [ErrStopped] when the dispatcher has stopped. It also returns errors of the sink, a
// [*PanicError], and the errors of a catch-up: a [*LostError] or an [*EpochError].
//
// After a panic or an error of Send, Position is not valid: the cursor may have passed a
// message that was not sent. After an error of TrySend, Position returns the position before
// the batch. This position is valid only if the sink has sent nothing of the batch. Only the
// sink can know that.
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
	if w.dispatcher.hasStopped() {
		return ErrStopped
	}
	return nil
}

// Stop makes Serve return nil soon. Any goroutine may call it.
func (w *Watcher) Stop() {
	w.stopping.Store(true)
	w.task.Ready()
}

// Ready makes the worker serve the watcher again. After [ErrFull], the sink calls Ready when
// it has room. Any goroutine may call Ready.
func (w *Watcher) Ready() { w.task.Ready() }

// needsReservation reports whether Serve has to call Reserve before the next message. SYNCED
// needs no reservation.
func (w *Watcher) needsReservation() bool {
	switch w.step {
	case stepSnapshot:
		return true
	case stepCatchUp:
		c := w.catchUp
		return c.kind.TransfersState() && !c.allPartsSent && !c.small
	}
	return false
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
func (w *Watcher) awaitWorker() error {
	w.workerOwns.Store(true)
	w.task.Ready()
	<-w.handedBack
	return w.failure
}

// handBack gives the watcher back to its handler. Only the worker calls handBack. The worker
// must not use the watcher afterwards.
func (w *Watcher) handBack() {
	w.workerOwns.Store(false)
	w.handedBack <- struct{}{}
}

// fail ends Serve with an error. Only the worker calls fail.
func (w *Watcher) fail(err error) {
	w.failure = err
	w.handBack()
}

// run serves the watcher alone, on the worker, and sends at most one batch. Afterwards, one
// of these is true: the watcher is in its group; its task is ready again; it waits for its
// timer or its sink; the handler owns it.
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
		b, result := w.poll(now)
		switch result {
		case pollNeedsHandler:
			w.group.leave(w)
			w.handBack()
			return
		case pollDelayed:
			w.group.leave(w)
			return
		case pollNothing:
			if w.joinGroup(now) {
				return
			}
			continue
		}
		if !w.trySend(b, now) {
			return
		}
		w.sink.CountSent(b, 1, now)
		if b.more || !w.joinGroup(now) {
			w.task.Ready() // the worker runs the other ready tasks first
		}
		return
	}
}

// trySend sends a batch from the worker. If it returns false, the watcher has left its group,
// and waits for its sink or its handler.
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
// next. It reports whether the sink has sent the batch, and whether the watcher stays in the
// group. If the watcher does not stay, offer makes sure that the worker, the timer, the sink
// or the handler continues with the watcher.
func (w *Watcher) offer(b *Batch, now time.Time) (sent, stays bool) {
	defer func() {
		if p := recover(); p != nil {
			sent, stays = false, false
			w.markLeft()
			w.fail(&PanicError{p, debug.Stack()})
		}
	}()
	switch w.match(b) {
	case matchesSent:
		return false, true
	case matchesNothing:
		w.markLeft()
		w.task.Ready()
		return false, false
	}
	if w.timed && w.schedule.holds(now) {
		w.markLeft()
		return false, false
	}
	switch err := w.sink.TrySend(b, now); err {
	case nil:
		w.delivered(b, now)
		return true, true
	case ErrFull:
		w.markLeft()
	case ErrNeedsHandler:
		w.markLeft()
		w.handBack()
	default:
		w.markLeft()
		w.fail(err)
	}
	return false, false
}

// joinGroup lets the watcher join its group and sets the timer for the next bookmark. It
// returns false if the feed has changed since the watcher read it. The order matters: the
// watcher first joins the group and then compares the version. So a change of the feed is
// noticed either by the group or by the watcher.
func (w *Watcher) joinGroup(now time.Time) bool {
	w.group.join(w)
	if w.feed.version.Load() != w.version {
		return false
	}
	w.schedule.awaitBookmark(now)
	return true
}

// pollResult is what a worker has to do for a watcher.
type pollResult uint8

const (
	pollNothing      pollResult = iota // nothing: the client has everything
	pollBatch                          // send a batch
	pollDelayed                        // wait for the timer: see Options.BatchDelay
	pollNeedsHandler                   // hand the watcher back: only the handler can continue
)

// poll returns the next batch from the log, or a bookmark. It never waits, and does not move
// the cursor past events.
func (w *Watcher) poll(now time.Time) (*Batch, pollResult) {
	if w.step != stepLive {
		return nil, pollNeedsHandler
	}
	if w.schedule.holds(now) {
		return nil, pollDelayed
	}
	w.version = w.feed.version.Load()
	// The order of the two loads matters; see Watcher.events.
	dispatchedUpTo := w.dispatchedUpTo()
	v := w.feed.view.Load()
	if !w.inLog(v) || w.mergeTo > 0 {
		return nil, pollNeedsHandler
	}
	b := w.feed.batch(batchStart{v, w.cursor, w.sent}, w.dispatcher, now)
	if b != nil && w.latest && w.sent == 0 && !b.distinct() {
		return nil, pollNeedsHandler
	}
	if b != nil {
		return b, pollBatch
	}
	w.advance(batchCut{upTo: w.cursor}, dispatchedUpTo)
	if m, ok := w.bookmark(now); ok {
		return &Batch{Message: m, end: batchCut{upTo: w.cursor}}, pollBatch
	}
	return nil, pollNothing
}

// matchResult is the result of comparing a batch of the group with what a watcher needs.
type matchResult uint8

const (
	matchesNext    matchResult = iota // the batch is what comes next
	matchesSent                       // the watcher has sent all events of the batch already
	matchesNothing                    // the watcher needs something else
)

// match compares a batch of the group with what the watcher needs next.
func (w *Watcher) match(b *Batch) matchResult {
	delivered := !b.end.partial && w.cursor >= b.end.upTo
	switch {
	case w.step != stepLive, w.epoch != b.Header.Position.Epoch, w.mergeTo > 0:
		return matchesNothing
	case w.sent == 0 && b.start.sent == 0 && delivered:
		return matchesSent
	case !b.follows(w.cursor, w.sent):
		return matchesNothing
	case w.latest && (b.end.partial || b.start.sent > 0 || !b.distinct()):
		return matchesNothing
	}
	return matchesNext
}

// delivered moves the watcher past a batch that its sink has sent.
func (w *Watcher) delivered(b *Batch, now time.Time) {
	if w.latest && b.end.partial {
		w.mergeTo = b.end.current // see Watcher.events
	}
	w.cursor, w.sent = b.end.advance(w.cursor, w.sent)
	w.recordSent(&b.Header, now)
}
