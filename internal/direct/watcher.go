package direct

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Watcher produces the messages of one watch. Next and Position are called by one
// goroutine at a time. Close is called once, after the last Next.
type Watcher struct {
	source   *Source
	interest feed.Interest
	options  dispatch.Options
	wake     chan struct{} // capacity 1: the tail has something new
	schedule dispatch.Schedule
	silent   bool // a bookmark is due and waits for the store to confirm the position

	bookmarkReady bool // the next message is a bookmark, unless changes come before

	step       step
	epoch      object.Epoch
	cursor     object.Revision // everything up to here has been delivered; 0: nothing to resume from
	sentCursor object.Revision // the cursor in the last message
	shown      object.Revision // the cursor in the last message that is not a bookmark, or in the first message
	asOf       time.Time       // everything that the store had then has been delivered

	exact            object.Revision // the revision that the snapshot must have; 0: any
	page             page            // of the snapshot
	expiredSnapshots int             // snapshots in a row that the store has forgotten half-way
	replayEnd        object.Revision
	unreadable       bool // the store has the changes after the cursor but cannot send them

	tail    *tail           // nil: not needed yet
	pending []object.Change // taken from the tail and not delivered
	partial bool            // the last message ended inside a revision
	merged  bool            // pending was merged and counts as one revision
	through object.Revision // pending is complete up to here
	takenAt time.Time       // pending is everything that the store had then
	ended   error           // why the tail has ended; nil: it has not

	mu    sync.Mutex
	quiet span // guarded by mu: nothing in it concerns the watch
}

// span has the revisions after one revision, up to and including another one.
type span struct {
	epoch    object.Epoch
	from, to object.Revision
}

// step is what a watcher does next.
type step uint8

const (
	beginReset  step = iota // announce a snapshot
	beginResume             // announce a replay, or a snapshot if the store has forgotten the cursor
	beginNow                // send a bookmark with the present position
	listing                 // send the snapshot
	replaying               // send the changes up to replayEnd
	live                    // send changes as they happen
)

// Watch starts a watcher, which covers every change after the call. The caller calls Next
// from one goroutine, and Close at the end.
//
// Errors are those of [Source.Position].
func (s *Source) Watch(ctx context.Context, i feed.Interest, b catchup.Begin, o dispatch.Options) (*Watcher, error) {
	asked := time.Now()
	at, err := s.Position(ctx, b.Needed)
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		source: s, interest: i, options: o, wake: make(chan struct{}, 1),
		schedule: dispatch.NewSchedule(&o), epoch: at.Epoch, exact: b.Exact, asOf: asked,
	}
	switch b.Kind {
	case catchup.BeginFromSnapshot:
		w.step = beginReset
	case catchup.BeginFromPosition:
		if b.Position.Epoch == at.Epoch && b.Position.Revision > at.Revision {
			return nil, &cacher.FutureError{Asked: b.Position.Revision, Current: at.Revision}
		}
		w.step, w.epoch, w.cursor = beginResume, b.Position.Epoch, b.Position.Revision
	case catchup.BeginFromNow:
		w.step, w.cursor = beginNow, at.Revision
	}
	return w, nil
}

// Position returns the newest position at which a watch can resume without missing or
// repeating a message of Next. Its revision is 0 if the watch has to start from nothing.
func (w *Watcher) Position() object.Position {
	if w.tail != nil && len(w.pending) == 0 {
		w.cursor = max(w.cursor, w.tail.reachedIfEmpty()) // the interest saw no change up to there
	}
	return w.position()
}

func (w *Watcher) position() object.Position {
	return object.Position{Epoch: w.epoch, Revision: w.cursor}
}

// Quiet reports whether nothing concerns the watch after the position from, up to and
// including the revision to. The watcher must have sent a message with this position. Quiet
// returns false if the watcher has not read so far, or has sent changes since. Any goroutine
// may call it.
func (w *Watcher) Quiet(from object.Position, to object.Revision) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quiet.epoch == from.Epoch && w.quiet.from <= from.Revision && to <= w.quiet.to
}

// Close ends the watch.
func (w *Watcher) Close() { w.dropTail() }

func (w *Watcher) dropTail() {
	if w.tail != nil {
		w.tail.close()
	}
	w.tail, w.pending, w.partial, w.merged, w.takenAt, w.ended = nil, nil, false, false, time.Time{}, nil
}

// startTail continues with the changes after the cursor. There were none at the time asOf; zero:
// the store has such changes.
func (w *Watcher) startTail(next step, asOf time.Time) {
	w.dropTail()
	w.step, w.through = next, w.cursor
	w.tail = w.source.newTail(&w.interest, w.options.Latest, next == replaying, asOf, w.position(), w.wake)
}

// Next waits for the next message. It returns ctx.Err() if ctx ends first. It returns
// [*catchup.LostError] or [*catchup.EpochError] if the watcher wants every event, or a
// snapshot of one revision, and the store no longer has it. It also returns
// [*catchup.LostError] if the store has forgotten three snapshots in a row before the
// watcher had read them.
func (w *Watcher) Next(ctx context.Context) (feed.Message, error) {
	m, err := w.next(ctx)
	if err == nil {
		w.schedule.RecordSent(&m.Header, time.Now())
		w.silent, w.bookmarkReady = false, false
	}
	return m, err
}

func (w *Watcher) next(ctx context.Context) (feed.Message, error) {
	for {
		switch w.step {
		case beginReset, beginResume, listing:
			m, err := w.catchUp(ctx)
			if !errors.Is(err, object.ErrUnavailable) {
				return m, err
			}
			if !backoff.Sleep(ctx, backoff.Jitter(retryInterval)) {
				return feed.Message{}, ctx.Err()
			}
		case beginNow:
			w.startTail(live, w.asOf)
			return w.message(object.Bookmark, nil, 0), nil
		case replaying, live:
			if m, ok := w.nextFromTail(); ok {
				return m, nil
			}
			if err := w.wait(ctx); err != nil {
				return feed.Message{}, err
			}
		}
	}
}

// CatchesUp reports whether Next is about to read the store, so that it may take long. The caller is
// the goroutine of Next.
func (w *Watcher) CatchesUp() bool { return w.step < replaying }

// ReadsSnapshot reports whether Next is about to read or return a part of a snapshot. It is
// false before SYNCED. The caller is the goroutine of Next.
func (w *Watcher) ReadsSnapshot() bool {
	switch w.step {
	case beginReset:
		return true
	case listing:
		return len(w.page.objects) > 0 || w.page.more
	}
	return false
}

func (w *Watcher) message(kind object.MessageKind, events [][]byte, count int) feed.Message {
	w.sentCursor = w.cursor
	if kind != object.Bookmark || w.shown == 0 {
		w.shown = w.cursor
	}
	return feed.Message{
		Events: events,
		Count:  count,
		Header: object.Header{Kind: kind, Position: w.position(), Partial: w.partial, Age: w.statedAge(kind)},
	}
}

// statedAge returns [object.Header.Age] of a message of the kind.
func (w *Watcher) statedAge(kind object.MessageKind) time.Duration {
	switch kind {
	case object.Live, object.Bookmark, object.Synced:
		return feed.StatedAge(w.asOf, time.Now())
	}
	return 0
}

// Await waits until Next has a message, or has to catch up. It encodes nothing. The caller is
// the goroutine of Next. Await returns ctx.Err() if ctx ends first.
func (w *Watcher) Await(ctx context.Context) error {
	for w.step >= replaying && !w.isReady(time.Now()) {
		if err := w.wait(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// nextFromTail returns the next message about changes, the end of a replay, or a bookmark.
// It returns false if none is due, or if the watcher has to catch up.
func (w *Watcher) nextFromTail() (feed.Message, bool) {
	switch {
	case !w.isReady(time.Now()), w.step < replaying:
		return feed.Message{}, false
	case len(w.pending) > 0:
		kind := object.Live
		if w.step == replaying {
			kind = object.CatchUpPart
		}
		events, count := w.encodeBatch()
		return w.message(kind, events, count), true
	case w.step == replaying:
		w.step = live
		w.tail.endReplay()
		return w.message(object.Synced, nil, 0), true
	}
	return w.message(object.Bookmark, nil, 0), true
}

// isReady reports whether the next message is about changes, the end of a replay or a bookmark,
// and can be made now. It also returns true if the watcher has to catch up. It is called while
// the watcher has a tail.
func (w *Watcher) isReady(now time.Time) bool {
	if _, held := w.schedule.HeldUntil(now); held && w.step == live {
		return false
	}
	w.take()
	if len(w.pending) > 0 {
		return true
	}
	w.deliveredAll()
	w.mu.Lock()
	w.quiet = span{w.epoch, w.shown, w.cursor}
	w.mu.Unlock()
	switch {
	case w.ended == nil:
	case errors.Is(w.ended, errFull):
		w.startTail(w.step, time.Time{})
	default: // the changes after the cursor are lost, or the epoch has changed
		w.unreadable = errors.Is(w.ended, object.ErrAnswerTooLarge)
		w.dropTail()
		w.step = beginResume
		return true
	}
	if w.step == replaying {
		if w.cursor >= w.replayEnd {
			return true
		}
		w.tail.checkUpToDate()
		return false
	}
	w.bookmarkReady = w.bookmarkReady || w.isBookmarkDue(now)
	return w.bookmarkReady
}

// take empties the buffer of the tail, if everything before has been delivered.
func (w *Watcher) take() {
	if len(w.pending) > 0 {
		return
	}
	w.pending, w.through, w.takenAt, w.ended = w.tail.take()
	if w.options.Latest && len(w.pending) > 1 {
		w.pending, w.merged = merge(w.pending, &w.interest, w.step == replaying), true
	}
}

// deliveredAll notes that all changes that were taken from the tail have been delivered.
func (w *Watcher) deliveredAll() {
	w.cursor = max(w.cursor, w.through)
	if w.asOf.Before(w.takenAt) {
		w.asOf = w.takenAt
	}
}

// isBookmarkDue reports whether to send a bookmark. After a silence it waits until the store has
// confirmed the position: without the store, a client must notice the silence. It asks the
// store at most once per interval.
func (w *Watcher) isBookmarkDue(now time.Time) bool {
	last := w.schedule.IsLastBookmarkDue(now)
	if !last && w.schedule.IsSilent(now) {
		w.silent = true
		w.schedule.Postpone(now)
		w.tail.checkUpToDate()
	}
	return last || w.silent && w.tail.upToDate.Load()
}

// wait waits until there may be a message.
func (w *Watcher) wait(ctx context.Context) error {
	if w.tail == nil || w.step < replaying {
		return ctx.Err() // the next step is to catch up, which does not wait here
	}
	var alarm <-chan time.Time
	if wait, ok := w.nextDeadline(); ok {
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

// nextDeadline returns how long the watcher may wait for the tail. It returns false if
// there is no limit.
func (w *Watcher) nextDeadline() (time.Duration, bool) {
	if w.step == replaying {
		return retryInterval, true // checkUpToDate may have failed
	}
	now := time.Now()
	if until, held := w.schedule.HeldUntil(now); held {
		return until.Sub(now), true
	}
	next := w.schedule.NextBookmark()
	return next.Sub(now), !next.IsZero()
}

// retryInterval is the approximate time between attempts while the store is away.
const retryInterval = 500 * time.Millisecond
