package direct

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// tail reads the changes after a position into a buffer, from which a reader takes them.
type tail struct {
	source   *Source
	interest *feed.Interest
	latest   bool // waiting changes may be merged
	epoch    object.Epoch
	wake     chan<- struct{} // receives a value when there is something new
	taken    chan struct{}   // capacity 1: the reader has emptied the buffer

	fresh    cacher.Freshness // when the tail had read everything that the store had
	checks   chan struct{}    // capacity 1: see checkUpToDate
	upToDate atomic.Bool      // since the last checkUpToDate, the tail has reached the store's revision

	ctx        context.Context // of all its goroutines
	stop       context.CancelFunc
	goroutines sync.WaitGroup

	mu      sync.Mutex
	changes []object.Change // guarded by mu: the changes that the interest sees
	bytes   int             // guarded by mu: size of changes
	replay  bool            // guarded by mu: the waiting changes belong to a replay, see merge
	through object.Revision // guarded by mu: everything up to here has been read
	ended   error           // guarded by mu: why there will be no further changes
}

// Reasons to end a tail. The third one is [object.ErrCompacted].
var (
	errFull            = errors.New("the buffer is full")
	errPreviousUnknown = fmt.Errorf("the object before a change: %w", object.ErrCompacted)
)

// newTail starts a tail of the changes after a position. There were none at the time asOf; zero: the
// store has such changes.
func (s *Source) newTail(interest *feed.Interest, latest, replay bool, asOf time.Time, after object.Position, wake chan<- struct{}) *tail {
	t := &tail{
		source: s, interest: interest, latest: latest, replay: replay, epoch: after.Epoch, through: after.Revision,
		wake: wake, taken: make(chan struct{}, 1), checks: make(chan struct{}, 1),
	}
	if !asOf.IsZero() {
		t.fresh.Confirm(asOf)
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.goroutines.Go(t.run)
	return t
}

// close ends the tail and waits for its goroutines.
func (t *tail) close() {
	t.stop()
	t.goroutines.Wait()
}

// run follows the store until the tail ends.
func (t *tail) run() {
	attempts := backoff.OfStore
	for {
		before := t.reached()
		err := t.follow(object.Position{Epoch: t.epoch, Revision: before})
		switch {
		case t.ctx.Err() != nil:
			return
		case errors.Is(err, errFull), errors.Is(err, cacher.ErrEpochChanged), errors.Is(err, object.ErrCompacted),
			errors.Is(err, object.ErrAnswerTooLarge):
			t.end(err)
			return
		}
		if t.reached() > before {
			attempts.Reset()
		}
		t.source.lostLog.Do(func() {
			t.source.log.Warn("a watcher lost its watch of the store and opens another; other watchers may have, too", "error", err)
		})
		for {
			if !backoff.Sleep(t.ctx, attempts.Next()) {
				return
			}
			if p, err := t.source.Position(t.ctx, 0); err == nil {
				if p.Epoch != t.epoch {
					t.end(cacher.ErrEpochChanged)
					return
				}
				break
			}
		}
	}
}

// follow reads a watch of the store from a position on until it fails or the watchdog
// gives it up.
func (t *tail) follow(after object.Position) error {
	t.fresh.Doubt() // the first updates may be old
	after.Epoch = storeEpoch(after.Epoch)
	watch, err := t.source.cfg.Store.Watch(t.ctx, t.interest.Scope, after, true)
	if err != nil {
		return err
	}
	defer watch.Close()
	ctx, giveUp := context.WithCancelCause(t.ctx)
	var watchdog sync.WaitGroup
	defer watchdog.Wait()
	defer giveUp(nil)
	watchdog.Go(func() { giveUp(t.runWatchdog(ctx, watch)) })
	for err == nil {
		var u object.Update
		if u, err = watch.Next(ctx); err == nil {
			err = t.deliver(&u)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// deliver adds an update of the store to the buffer.
func (t *tail) deliver(u *object.Update) error {
	var seen []object.Change
	size := 0
	for i := range u.Records {
		if t.source.missingKeys.Note(&u.Records[i]) && t.source.servedEpoch(storeEpoch(t.epoch)) != t.epoch {
			return cacher.ErrEpochChanged
		}
		c, ok := t.source.change(&u.Records[i], u.Previous[i])
		if !ok {
			return errPreviousUnknown
		}
		if _, ok := t.interest.See(&c); ok {
			seen = append(seen, c)
			size += c.Size()
		}
	}
	switch isFull := t.add(seen, size, u.Through); {
	case !isFull:
		return nil
	case t.fresh.Confirmed().IsZero(): // the reader reads what the store already has
		return t.awaitRoom()
	}
	return errFull
}

// add adds changes to the buffer, up to a revision, and reports whether it is full.
func (t *tail) add(changes []object.Change, size int, through object.Revision) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes = append(t.changes, changes...)
	t.bytes += size
	t.fresh.Updated(time.Now())
	t.through = max(t.through, through)
	t.wakeReader()
	return t.bytes > t.source.cfg.BufferBytes && !t.mergeLocked()
}

// fullWait is how long a watch of the store may wait for a reader that is behind and whose
// buffer is full. It is shorter than the watchdog's patience.
const fullWait = 5 * time.Second

// awaitRoom waits until the reader empties the buffer: it is reading what the store already has,
// and another tail would make the store read all of that again. If the reader takes longer than
// fullWait, the tail ends.
func (t *tail) awaitRoom() error {
	timer := time.NewTimer(fullWait)
	defer timer.Stop()
	for t.isFull() {
		select {
		case <-t.taken:
		case <-timer.C:
			return errFull
		case <-t.ctx.Done():
			return t.ctx.Err()
		}
	}
	return nil
}

func (t *tail) isFull() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes > t.source.cfg.BufferBytes
}

// change returns the change that a record describes. It returns false if the object
// before the change is not known.
func (s *Source) change(r, previous *object.Record) (object.Change, bool) {
	c := object.Change{Revision: r.ModRevision, Key: r.Key}
	if !r.Deleted {
		c.New = s.decode(r)
	}
	if previous != nil {
		c.Old = s.decode(previous)
		return c, true
	}
	return c, !r.Deleted && r.CreateRevision == r.ModRevision
}

// mergeLocked merges the waiting changes, if the watch wants only the latest. It
// reports whether that freed half of the buffer; otherwise it would soon have to merge
// again. The caller holds mu.
func (t *tail) mergeLocked() bool {
	if !t.latest || t.replay {
		return false
	}
	t.changes = merge(t.changes, t.interest, false)
	t.bytes = 0
	for i := range t.changes {
		t.bytes += t.changes[i].Size()
	}
	return t.bytes <= t.source.cfg.BufferBytes/2
}

// endReplay notes that the reader has reached the end of its replay.
func (t *tail) endReplay() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replay = false
}

func (t *tail) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = err
	t.wakeReader()
}

func (t *tail) wakeReader() {
	select {
	case t.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// reached returns the last revision that has been read completely.
func (t *tail) reached() object.Revision {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.through
}

// take empties the buffer. It returns the changes, the last revision that has been read
// completely, a time at which that was everything that the store had (zero: never), and the
// error that ended the tail, if it has ended.
func (t *tail) take() (changes []object.Change, through object.Revision, asOf time.Time, ended error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changes, t.changes, t.bytes = t.changes, nil, 0
	select {
	case t.taken <- struct{}{}:
	default: // it is noted already
	}
	return changes, t.through, t.fresh.Confirmed(), t.ended
}

// reachedIfEmpty returns reached if the buffer is empty, and otherwise 0.
func (t *tail) reachedIfEmpty() object.Revision {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.changes) > 0 {
		return 0
	}
	return t.through
}
