package direct

import (
	"context"
	"errors"
	"time"

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Begin says where a watcher begins.
type Begin struct {
	kind   beginKind
	after  object.Position
	needed object.Revision // the store has to be there
}

type beginKind uint8

const (
	snapshot beginKind = iota
	exactSnapshot
	resume
	now
)

// FromSnapshot begins with the objects at a revision that is not older than needed.
func FromSnapshot(needed object.Revision) Begin { return Begin{kind: snapshot, needed: needed} }

// FromExactly begins with the objects at a revision of the store's past.
func FromExactly(at object.Revision) Begin { return Begin{kind: exactSnapshot, needed: at} }

// After begins with what changed since the position.
func After(p object.Position) Begin { return Begin{kind: resume, after: p} }

// FromNow begins with what changes from now on.
func FromNow(needed object.Revision) Begin { return Begin{kind: now, needed: needed} }

// Watcher is the serving end of one watch. Next and Position are called by one
// goroutine at a time, Close once, after the last Next.
type Watcher struct {
	source   *Source
	interest dispatch.Interest
	options  dispatch.Options
	wake     chan struct{} // capacity 1: the tail has something
	clock    clock

	step   step
	epoch  object.Epoch
	cursor object.Revision // everything up to here has been delivered; 0: nothing that could be continued
	told   object.Revision // the cursor that the last message had

	exact     object.Revision // the snapshot must be of this revision; 0: of none in particular
	page      page            // of the snapshot
	forgotten int             // so many snapshots in a row the store has forgotten on the way
	to        object.Revision // where a replay leads

	tail    *tail           // nil: none is needed yet
	pending []object.Change // taken from the tail and not delivered
	parts   bool            // the first of them belong together with what was delivered last
	merged  bool            // they were merged and belong together
	through object.Revision // there are no others up to here
	ended   error           // why the tail has ended, if it has
}

// step is what a watcher does next.
type step uint8

const (
	beginReset  step = iota // announce a snapshot
	beginResume             // announce the way from a position to the present
	beginNow                // say where now is
	listing                 // send the snapshot
	replaying               // send the events that lead to the present
	live                    // send events as they come
)

// Watch registers a watcher. Every change after the call is covered by it. The
// caller calls Next from one goroutine, and Close when it is done.
//
// Errors are those of [Source.Position].
func (s *Source) Watch(ctx context.Context, i dispatch.Interest, b Begin, o dispatch.Options) (*Watcher, error) {
	at, err := s.Position(ctx, b.needed)
	if err != nil {
		return nil, err
	}
	if o.BookmarkInterval > 0 {
		// Nothing is held back for so long that it looks as if we were gone.
		o.BatchDelay = min(o.BatchDelay, o.BookmarkInterval)
	}
	w := &Watcher{source: s, interest: i, options: o, wake: make(chan struct{}, 1), epoch: at.Epoch}
	switch b.kind {
	case snapshot:
		w.step = beginReset
	case exactSnapshot:
		w.step, w.exact = beginReset, b.needed
	case resume:
		if b.after.Epoch == at.Epoch && b.after.Revision > at.Revision {
			return nil, &cacher.FutureError{Asked: b.after.Revision, Current: at.Revision}
		}
		w.step, w.epoch, w.cursor = beginResume, b.after.Epoch, b.after.Revision
	case now:
		w.step, w.cursor = beginNow, at.Revision
	}
	return w, nil
}

// Position returns the newest position at which a watch can be resumed without
// missing or repeating anything that was returned by Next. Its revision is 0 where
// that is from nothing.
func (w *Watcher) Position() object.Position {
	if w.tail != nil && len(w.pending) == 0 {
		w.cursor = max(w.cursor, w.tail.idle()) // nothing was for the watcher
	}
	return w.position()
}

func (w *Watcher) position() object.Position {
	return object.Position{Epoch: w.epoch, Revision: w.cursor}
}

// Close ends the watch.
func (w *Watcher) Close() { w.dropTail() }

func (w *Watcher) dropTail() {
	if w.tail != nil {
		w.tail.close()
	}
	w.tail, w.pending, w.parts, w.merged, w.ended = nil, nil, false, false, nil
}

// Next waits for the next message. It returns ctx.Err() when ctx ends first, and
// [*dispatch.LostError] or [*dispatch.EpochError] where a watcher who wants every
// event, or a snapshot of one revision, cannot have it. It also returns
// [*dispatch.LostError] where the store has forgotten three snapshots in a row before
// the watcher had read them.
func (w *Watcher) Next(ctx context.Context) (dispatch.Message, error) {
	m, err := w.next(ctx)
	if err == nil {
		w.clock.note(m.Header.Kind)
	}
	return m, err
}

func (w *Watcher) next(ctx context.Context) (dispatch.Message, error) {
	for {
		switch w.step {
		case beginReset, beginResume, listing:
			m, err := w.catchUp(ctx)
			if again(err) {
				err = w.pause(ctx)
			} else if err == nil {
				return m, nil
			}
			if err != nil {
				return dispatch.Message{}, err
			}
		case beginNow:
			w.follow(live)
			return w.message(object.Bookmark, nil, 0), nil
		case replaying, live:
			if m, ok := w.tell(); ok {
				return m, nil
			}
			if err := w.wait(ctx); err != nil {
				return dispatch.Message{}, err
			}
		}
	}
}

func (w *Watcher) message(kind object.MessageKind, pieces [][]byte, count int) dispatch.Message {
	w.told = w.cursor
	return dispatch.Message{
		Events: pieces,
		Count:  count,
		Header: object.Header{Kind: kind, Position: w.position(), Partial: w.parts},
	}
}

// follow goes on with the changes after the cursor.
func (w *Watcher) follow(next step) {
	w.dropTail()
	w.step, w.through = next, w.cursor
	w.tail = w.source.newTail(&w.interest, w.options.Latest, next == replaying, w.position(), w.wake)
}

// tell returns the next message about changes, if there is one.
func (w *Watcher) tell() (dispatch.Message, bool) {
	if w.step == live && w.clock.holds(&w.options) {
		return dispatch.Message{}, false
	}
	w.take()
	if len(w.pending) > 0 {
		kind := object.Live
		if w.step == replaying {
			kind = object.CatchUpPart
		}
		events, count := w.part()
		return w.message(kind, events, count), true
	}
	w.cursor = max(w.cursor, w.through)
	switch {
	case w.ended == nil:
	case errors.Is(w.ended, errFull):
		w.follow(w.step)
	default: // the changes after the cursor are lost, or the store is another one
		w.dropTail()
		w.step = beginResume
		return dispatch.Message{}, false
	}
	if w.step == replaying {
		if w.cursor >= w.to {
			w.step = live
			w.tail.resumed()
			return w.message(object.Synced, nil, 0), true
		}
		w.tail.confirm()
		return dispatch.Message{}, false
	}
	return w.bookmark()
}

// take gets what the tail has, if everything from before has been delivered.
func (w *Watcher) take() {
	if len(w.pending) > 0 {
		return
	}
	w.pending, w.through, w.ended = w.tail.take()
	if w.options.Latest && len(w.pending) > 1 {
		w.pending, w.merged = merge(w.pending, &w.interest, w.step == replaying), true
	}
}

// bookmark says where the watcher is, if it is time to and the store is there to
// say so, too.
func (w *Watcher) bookmark() (dispatch.Message, bool) {
	switch w.clock.due(&w.options) {
	case farewell:
		w.clock.last = true
	case silence:
		if w.clock.asked.IsZero() || !w.tail.isConfirmed() {
			if w.clock.asksAgain(&w.options) {
				w.tail.confirm()
			}
			return dispatch.Message{}, false
		}
	case notDue:
		return dispatch.Message{}, false
	}
	return w.message(object.Bookmark, nil, 0), true
}

// wait waits until there may be something to tell.
func (w *Watcher) wait(ctx context.Context) error {
	if w.tail == nil || w.step < replaying {
		return ctx.Err() // there is something to do
	}
	var alarm <-chan time.Time
	if wait, ok := w.patience(); ok {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-w.wake:
	case <-alarm:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// patience returns how long there is nothing to do if the tail has nothing new, or
// false for ever.
func (w *Watcher) patience() (time.Duration, bool) {
	if w.step == replaying {
		return retryPause, true // nothing may have come of asking where the store is
	}
	return w.clock.wait(&w.options)
}

// again reports whether what failed may succeed when it is tried again.
func again(err error) bool { return errors.Is(err, object.ErrUnavailable) }

// retryPause is about how long a watcher waits before it asks a store again that is
// away.
const retryPause = 500 * time.Millisecond

// pause waits before something is tried again.
func (w *Watcher) pause(ctx context.Context) error {
	if !backoff.Sleep(ctx, backoff.Jitter(retryPause)) {
		return ctx.Err()
	}
	return nil
}
