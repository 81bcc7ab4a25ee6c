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

// Reader produces the messages of one watch. Next and Position are called by one
// goroutine at a time. Close is called once, after the last Next.
type Reader struct {
	source   *Source
	interest feed.Interest
	options  dispatch.Options
	wake     chan struct{} // capacity 1: the tail has something new
	schedule dispatch.Schedule
	silent   bool // a bookmark is due and waits for the store to confirm the position

	bookmarkReady bool // the next message is a bookmark, unless changes come before

	step      step
	epoch     object.Epoch
	after     object.Revision // everything up to here has been delivered; 0: nothing to resume from
	sentAfter object.Revision // after, in the last message
	shown     object.Revision // after, in the last message that is not a bookmark, or in the first message
	asOf      time.Time       // everything that the store had then has been delivered

	exact            object.Revision // the revision that the snapshot must have; 0: any
	page             page            // of the snapshot
	expiredSnapshots int             // snapshots in a row that the store has forgotten half-way
	replayEnd        object.Revision
	unreadable       bool // the store has the changes after the position but cannot send them

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

// step is what a reader does next.
type step uint8

const (
	beginReset  step = iota // announce a snapshot
	beginResume             // announce a replay, or a snapshot if the store has forgotten the position
	beginNow                // send a bookmark with the present position
	listing                 // send the snapshot
	replaying               // send the changes up to replayEnd
	live                    // send changes as they happen
)

// Watch starts a reader, which covers every change after the call. The caller calls Next
// from one goroutine, and Close at the end.
//
// Errors are those of [Source.Position].
func (s *Source) Watch(ctx context.Context, i feed.Interest, b catchup.Begin, o dispatch.Options) (*Reader, error) {
	asked := time.Now()
	at, err := s.Position(ctx, b.Needed)
	if err != nil {
		return nil, err
	}
	r := &Reader{
		source: s, interest: i, options: o, wake: make(chan struct{}, 1),
		schedule: dispatch.NewSchedule(&o), epoch: at.Epoch, exact: b.Exact, asOf: asked,
	}
	switch b.Kind {
	case catchup.BeginFromSnapshot:
		r.step = beginReset
	case catchup.BeginFromPosition:
		if b.Position.Epoch == at.Epoch && b.Position.Revision > at.Revision {
			return nil, &cacher.FutureError{Asked: b.Position.Revision, Current: at.Revision}
		}
		r.step, r.epoch, r.after = beginResume, b.Position.Epoch, b.Position.Revision
	case catchup.BeginFromNow:
		r.step, r.after = beginNow, at.Revision
	}
	return r, nil
}

// Position returns the newest position at which a watch can resume without missing or
// repeating a message of Next. Its revision is 0 if the watch has to start from nothing.
func (r *Reader) Position() object.Position {
	if r.tail != nil && len(r.pending) == 0 {
		r.after = max(r.after, r.tail.reachedIfEmpty()) // the interest saw no change up to there
	}
	return r.position()
}

func (r *Reader) position() object.Position {
	return object.Position{Epoch: r.epoch, Revision: r.after}
}

// Quiet reports whether nothing concerns the watch after the position from, up to and
// including the revision to. The reader must have sent a message with this position. Quiet
// returns false if the reader has not read so far, or has sent changes since. Any goroutine
// may call it.
func (r *Reader) Quiet(from object.Position, to object.Revision) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quiet.epoch == from.Epoch && r.quiet.from <= from.Revision && to <= r.quiet.to
}

// Close ends the watch.
func (r *Reader) Close() { r.dropTail() }

func (r *Reader) dropTail() {
	if r.tail != nil {
		r.tail.close()
	}
	r.tail, r.pending, r.partial, r.merged, r.takenAt, r.ended = nil, nil, false, false, time.Time{}, nil
}

// startTail continues with the changes after the position. There were none at the time asOf; zero:
// the store has such changes.
func (r *Reader) startTail(next step, asOf time.Time) {
	r.dropTail()
	r.step, r.through = next, r.after
	r.tail = r.source.newTail(&r.interest, r.options.Latest, next == replaying, asOf, r.position(), r.wake)
}

// Next waits for the next message. It returns ctx.Err() if ctx ends first. It returns
// [*catchup.LostError] or [*catchup.EpochError] if the watch wants every event, or a
// snapshot of one revision, and the store no longer has it. It also returns
// [*catchup.LostError] if the store has forgotten three snapshots in a row before the
// reader had read them.
func (r *Reader) Next(ctx context.Context) (feed.Message, error) {
	m, err := r.next(ctx)
	if err == nil {
		r.schedule.RecordSent(&m.Header, time.Now())
		r.silent, r.bookmarkReady = false, false
	}
	return m, err
}

func (r *Reader) next(ctx context.Context) (feed.Message, error) {
	for {
		switch r.step {
		case beginReset, beginResume, listing:
			m, err := r.catchUp(ctx)
			if !errors.Is(err, object.ErrUnavailable) {
				return m, err
			}
			if !backoff.Sleep(ctx, backoff.Jitter(retryInterval)) {
				return feed.Message{}, ctx.Err()
			}
		case beginNow:
			r.startTail(live, r.asOf)
			return r.message(object.Bookmark, nil, 0), nil
		case replaying, live:
			if m, ok := r.nextFromTail(); ok {
				return m, nil
			}
			if err := r.wait(ctx); err != nil {
				return feed.Message{}, err
			}
		}
	}
}

// CatchesUp reports whether Next is about to read the store, so that it may take long. The caller is
// the goroutine of Next.
func (r *Reader) CatchesUp() bool { return r.step < replaying }

// ReadsSnapshot reports whether Next is about to read or return a part of a snapshot. It is
// false before SYNCED. The caller is the goroutine of Next.
func (r *Reader) ReadsSnapshot() bool {
	switch r.step {
	case beginReset:
		return true
	case listing:
		return len(r.page.objects) > 0 || r.page.more
	}
	return false
}

func (r *Reader) message(kind object.MessageKind, events [][]byte, count int) feed.Message {
	r.sentAfter = r.after
	if kind != object.Bookmark || r.shown == 0 {
		r.shown = r.after
	}
	return feed.Message{
		Events: events,
		Count:  count,
		Header: object.Header{Kind: kind, Position: r.position(), Partial: r.partial, Age: r.statedAge(kind)},
	}
}

// statedAge returns [object.Header.Age] of a message of the kind.
func (r *Reader) statedAge(kind object.MessageKind) time.Duration {
	switch kind {
	case object.Live, object.Bookmark, object.Synced:
		return feed.StatedAge(r.asOf, time.Now())
	}
	return 0
}

// Await waits until Next has a message, or has to catch up. It encodes nothing. The caller is
// the goroutine of Next. Await returns ctx.Err() if ctx ends first.
func (r *Reader) Await(ctx context.Context) error {
	for r.step >= replaying && !r.isReady(time.Now()) {
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// nextFromTail returns the next message about changes, the end of a replay, or a bookmark.
// It returns false if none is due, or if the reader has to catch up.
func (r *Reader) nextFromTail() (feed.Message, bool) {
	switch {
	case !r.isReady(time.Now()), r.step < replaying:
		return feed.Message{}, false
	case len(r.pending) > 0:
		kind := object.Live
		if r.step == replaying {
			kind = object.CatchUpPart
		}
		events, count := r.encodeBatch()
		return r.message(kind, events, count), true
	case r.step == replaying:
		r.step = live
		r.tail.endReplay()
		return r.message(object.Synced, nil, 0), true
	}
	return r.message(object.Bookmark, nil, 0), true
}

// isReady reports whether the next message is about changes, the end of a replay or a bookmark,
// and can be made now. It also returns true if the reader has to catch up. It is called while
// the reader has a tail.
func (r *Reader) isReady(now time.Time) bool {
	if _, held := r.schedule.HeldUntil(now); held && r.step == live {
		return false
	}
	confirmed := r.silent && r.tail.upToDate.Load() // asked first, so that take returns the time of it
	r.take()
	if len(r.pending) > 0 {
		return true
	}
	r.deliveredAll()
	r.mu.Lock()
	r.quiet = span{r.epoch, r.shown, r.after}
	r.mu.Unlock()
	switch {
	case r.ended == nil:
	case errors.Is(r.ended, errFull):
		r.startTail(r.step, time.Time{})
		confirmed = false
	default: // the changes after the position are lost, or the epoch has changed
		r.unreadable = errors.Is(r.ended, object.ErrAnswerTooLarge)
		r.dropTail()
		r.step = beginResume
		return true
	}
	if r.step == replaying {
		if r.after >= r.replayEnd {
			return true
		}
		r.tail.checkUpToDate()
		return false
	}
	r.bookmarkReady = r.bookmarkReady || confirmed || r.isBookmarkDue(now)
	return r.bookmarkReady
}

// take empties the buffer of the tail, if everything before has been delivered.
func (r *Reader) take() {
	if len(r.pending) > 0 {
		return
	}
	r.pending, r.through, r.takenAt, r.ended = r.tail.take()
	if r.options.Latest && len(r.pending) > 1 {
		r.pending, r.merged = merge(r.pending, &r.interest, r.step == replaying), true
	}
}

// deliveredAll notes that all changes that were taken from the tail have been delivered.
func (r *Reader) deliveredAll() {
	r.after = max(r.after, r.through)
	if r.asOf.Before(r.takenAt) {
		r.asOf = r.takenAt
	}
}

// isBookmarkDue reports whether to send a bookmark although the store has not confirmed the position.
// After a silence the reader waits until it has: without the store, a client must notice the silence. It
// asks the store at most once per interval.
func (r *Reader) isBookmarkDue(now time.Time) bool {
	if r.schedule.IsLastBookmarkDue(now) {
		return true
	}
	if r.schedule.IsSilent(now) {
		r.silent = true
		r.schedule.Postpone(now)
		r.tail.checkUpToDate()
	}
	return false
}

// wait waits until there may be a message.
func (r *Reader) wait(ctx context.Context) error {
	if r.tail == nil || r.step < replaying {
		return ctx.Err() // the next step is to catch up, which does not wait here
	}
	var alarm <-chan time.Time
	if wait, ok := r.nextDeadline(); ok {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-r.wake:
	case <-alarm:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// nextDeadline returns how long the reader may wait for the tail. It returns false if
// there is no limit.
func (r *Reader) nextDeadline() (time.Duration, bool) {
	if r.step == replaying {
		return retryInterval, true // checkUpToDate may have failed
	}
	now := time.Now()
	if until, held := r.schedule.HeldUntil(now); held {
		return until.Sub(now), true
	}
	next := r.schedule.NextBookmark()
	return next.Sub(now), !next.IsZero()
}

// retryInterval is the approximate time between attempts while the store is away.
const retryInterval = 500 * time.Millisecond
