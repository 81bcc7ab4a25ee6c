package direct

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// tail reads the changes after a position into a buffer, from which a watcher takes
// them.
type tail struct {
	source   *Source
	interest *dispatch.Interest
	latest   bool // what waits may be merged
	epoch    object.Epoch
	wake     chan<- struct{} // gets one when there is something new
	ask      chan struct{}   // makes the store say how far it is

	ctx        context.Context // of all its goroutines
	stop       context.CancelFunc
	goroutines sync.WaitGroup

	mu         sync.Mutex
	changes    []object.Change // guarded by mu: those that the interest sees
	bytes      int             // guarded by mu: their size
	heard      int             // guarded by mu: counts what the store said
	resumes    bool            // guarded by mu: what waits belongs to a replay, see merge
	through    object.Revision // guarded by mu: everything up to here has been read
	confirmed  bool            // guarded by mu: through was the store's revision, when that was last asked for
	confirming bool            // guarded by mu: that is being asked
	ended      error           // guarded by mu: why nothing will be added
}

// Why a tail ends. It also ends with [object.ErrCompacted].
var (
	errFull      = errors.New("the buffer is full")
	errNewEpoch  = errors.New("the store has become another one")
	errForgotten = fmt.Errorf("what was there before a change: %w", object.ErrCompacted)
)

// confirmRetry is how often to ask for progress until there is an answer: the store
// does not answer while its watch is behind.
const confirmRetry = 50 * time.Millisecond

func (s *Source) newTail(interest *dispatch.Interest, latest, resumes bool, after object.Position, wake chan<- struct{}) *tail {
	t := &tail{
		source: s, interest: interest, latest: latest, resumes: resumes, epoch: after.Epoch, through: after.Revision,
		wake: wake, ask: make(chan struct{}),
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
	var attempts backoff.Backoff
	for {
		before := t.reached()
		after := object.Position{Epoch: t.epoch, Revision: before}
		err := t.follow(after)
		switch {
		case t.ctx.Err() != nil:
			return
		case errors.Is(err, errFull), errors.Is(err, errNewEpoch), errors.Is(err, object.ErrCompacted):
			t.end(err)
			return
		}
		if t.reached() > before {
			attempts.Reset()
		}
		t.source.lostWatch(err)
		for {
			if !backoff.Sleep(t.ctx, attempts.Next()) {
				return
			}
			if p, err := t.source.Position(t.ctx, 0); err == nil {
				if p.Epoch != t.epoch {
					t.end(errNewEpoch)
					return
				}
				break
			}
		}
	}
}

// follow follows the store from a position until that fails, or the watch is found
// to be deaf.
func (t *tail) follow(after object.Position) error {
	ctx, giveUp := context.WithCancelCause(t.ctx)
	var pulse sync.WaitGroup
	defer pulse.Wait()
	defer giveUp(nil)
	pulse.Go(func() { giveUp(t.pulse(ctx)) })
	after.Epoch = plain(after.Epoch)
	err := t.source.cfg.Store.WatchScope(ctx, t.interest.Scope, after, t.ask, t.deliver)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// deliver adds what the store says to the buffer.
func (t *tail) deliver(u object.Update, previous []*object.Record) error {
	var seen []object.Change
	size := 0
	for i := range u.Records {
		if t.source.missing.Note(&u.Records[i]) && t.source.epoch(plain(t.epoch)) != t.epoch {
			return errNewEpoch
		}
		c, ok := t.source.change(&u.Records[i], previous[i])
		if !ok {
			return errForgotten
		}
		if _, ok := t.interest.See(&c); ok {
			seen = append(seen, c)
			size += c.Size()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes = append(t.changes, seen...)
	t.bytes += size
	t.heard++
	t.through = max(t.through, u.Through)
	t.signal()
	if t.bytes > t.source.cfg.BufferBytes && !t.merge() {
		return errFull
	}
	return nil
}

// merge merges what waits for a watcher that wants the latest only, and reports
// whether that made room: half of the buffer, lest it is done for every change. It is
// called with mu held.
func (t *tail) merge() bool {
	if !t.latest || t.resumes {
		return false
	}
	t.changes = merge(t.changes, t.interest, false)
	t.bytes = 0
	for i := range t.changes {
		t.bytes += t.changes[i].Size()
	}
	return t.bytes <= t.source.cfg.BufferBytes/2
}

// resumed says that the replay is complete.
func (t *tail) resumed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resumes = false
}

func (t *tail) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = err
	t.signal()
}

// signal wakes the watcher.
func (t *tail) signal() {
	select {
	case t.wake <- struct{}{}:
	default: // it is about to look
	}
}

// count returns how often the store has said something.
func (t *tail) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard
}

func (t *tail) reached() object.Revision {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.through
}

// take empties the buffer. It returns how far the changes go, and why there will be
// no others once they are used up, if that is so.
func (t *tail) take() (changes []object.Change, through object.Revision, ended error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changes, t.changes, t.bytes = t.changes, nil, 0
	return changes, t.through, t.ended
}

// idle returns how far the tail has read, if there is nothing in the buffer; else 0.
func (t *tail) idle() object.Revision {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.changes) > 0 {
		return 0
	}
	return t.through
}

// isConfirmed reports whether the tail has reached the revision that the store had
// when that was last asked for.
func (t *tail) isConfirmed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.confirmed
}

// confirm finds out in the background where the store is and sees to it that the
// tail gets there, though nothing may happen on the way. If the store is away,
// nothing comes of it.
func (t *tail) confirm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.confirming {
		return
	}
	t.confirming, t.confirmed = true, false
	t.goroutines.Go(func() {
		there := t.arrive(t.ctx) == nil
		t.mu.Lock()
		defer t.mu.Unlock()
		t.confirming = false
		if there {
			t.confirmed = true
			t.signal()
		}
	})
}

// arrive waits until the tail has reached the store's present revision. The error is
// errNoAnswer where the store says which that is and its watch does not get there.
func (t *tail) arrive(ctx context.Context) error {
	p, err := t.source.Position(ctx, 0)
	if err != nil {
		return err
	}
	if p.Epoch != t.epoch {
		return errNewEpoch
	}
	ctx, cancel := context.WithTimeout(ctx, t.source.cfg.ReadWait)
	defer cancel()
	for t.reached() < p.Revision {
		select {
		case t.ask <- struct{}{}:
		case <-ctx.Done():
			return errNoAnswer
		}
		if !backoff.Sleep(ctx, confirmRetry) {
			return errNoAnswer
		}
	}
	return nil
}
