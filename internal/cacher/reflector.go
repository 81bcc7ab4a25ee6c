package cacher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/object"
)

// lookback is how far in the past filling begins, in revisions, as a multiple of the
// window's size in changes. It is more than one because other resources and programs
// write revisions, too. It is limited because the store reads all of its history in
// between. The number is a guess.
const lookback = 10

// Run fills the cacher and keeps it up to date until ctx is done. It returns when every
// goroutine that it started has ended. It logs failures of the store and tries again;
// readers see them in [Cacher.Following].
func (c *Cacher) Run(ctx context.Context) {
	attempts := backoff.OfStore
	for ctx.Err() == nil {
		err := c.fillAndFollow(ctx, &attempts)
		c.following.Store(false)
		if ctx.Err() != nil {
			return
		}
		c.counts.interruptions.Add(1)
		wait := attempts.Next()
		level, message := slog.LevelWarn, "lost the store, trying again"
		switch {
		case errors.Is(err, errMismatch):
			level = slog.LevelError // a bug, here or in the store
		case errors.Is(err, errKeyMissing), errors.Is(err, errKeyArrived):
			message = "decryption keys have changed, filling again under another epoch"
		}
		c.log.Log(ctx, level, message, "error", err, "in", wait)
		backoff.Sleep(ctx, wait)
	}
}

// fillAndFollow follows the store from the present position until a step fails. It fills
// the cacher first if there is no position to go on from. It resets attempts when the watch of
// the store works.
func (c *Cacher) fillAndFollow(ctx context.Context, attempts *backoff.Backoff) error {
	epoch, err := c.cfg.Store.Epoch(ctx)
	if err != nil {
		return fmt.Errorf("read the epoch of the store: %w", err)
	}
	c.mustRefill = c.keysChanged() || c.mustRefill
	if c.objects == nil || c.invalidPositions || c.mustRefill || epoch != c.storeEpoch {
		if err := c.fill(ctx, epoch); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	err = c.follow(ctx, attempts)
	for {
		switch {
		case errors.Is(err, object.ErrCompacted):
			c.log.Warn("the store has compacted the next revision, listing again", "revision", c.position.Revision)
		case errors.Is(err, object.ErrAnswerTooLarge):
			// The next changes may be as large, and each list costs more than they do.
			wait := attempts.Next()
			c.following.Store(false)
			c.log.Warn("the store cannot send the next change, listing again", "revision", c.position.Revision, "error", err, "in", wait)
			backoff.Sleep(ctx, wait)
		default:
			c.invalidPositions = errors.Is(err, errWentBack) || errors.Is(err, errMismatch)
			return fmt.Errorf("follow from revision %d: %w", c.position.Revision, err)
		}
		err = c.relist(ctx)
		switch {
		case err == nil:
			err = c.follow(ctx, attempts)
		case errors.Is(err, object.ErrAnswerTooLarge):
			return fmt.Errorf("list again: %w", err)
		}
	}
}

// readerEpoch returns the epoch that readers see for an epoch of the store. It is a new
// one if positions of the store's epoch cannot be trusted, because the store went back
// under the same name or because the state was wrong. Then no client resumes them.
func (c *Cacher) readerEpoch(ofStore object.Epoch) object.Epoch {
	epoch := ofStore
	if c.invalidPositions && ofStore == c.storeEpoch {
		epoch = object.Epoch(fmt.Sprintf("%s~%08x", ofStore, rand.Uint32()))
	}
	return c.missingKeys.Epoch(epoch)
}

// fill lists the resource at an older revision. The watch then brings the state to the
// present, and so fills the window.
func (c *Cacher) fill(ctx context.Context, epoch object.Epoch) error {
	asked := time.Now()
	now, err := c.cfg.Store.Revision(ctx)
	if err != nil {
		return fmt.Errorf("read the revision of the store: %w", err)
	}
	floor := max(1, now-c.fillReach(ctx, object.Position{Epoch: epoch, Revision: now}))
	from, err := c.cfg.Store.Oldest(ctx, floor, now)
	if err != nil {
		return fmt.Errorf("find the oldest revision from %d on: %w", floor, err)
	}
	c.opaque.begin(epoch)
	objects, changes, undecryptable := newTree(), newChangeIndex(from, c.cfg.MaxTombstones), 0
	var all []*object.Object
	for p, err := range c.decodedPages(ctx, from) {
		if err != nil {
			return fmt.Errorf("list at revision %d: %w", from, err)
		}
		for i, o := range p.objects {
			c.missingKeys.Note(&p.records[i])
			c.noteFailure(&p.records[i], p.failure(i))
			undecryptable += countUndecryptable(o)
			objects.Load(o)
		}
		all = append(all, p.objects...)
	}
	changes.load(all)
	if err := c.checkEpoch(ctx, epoch); err != nil {
		return err
	}
	c.objects, c.changes, c.undecryptable = objects, changes, undecryptable
	c.lacksKeys, c.mustRefill = c.missingKeys.Any(), false
	c.position = object.Position{Epoch: c.readerEpoch(epoch), Revision: from}
	c.storeEpoch, c.invalidPositions = epoch, false
	c.reached.Store(int64(from))
	c.window = window{after: from}
	c.publishFrom, c.publishAsked = now, asked
	c.counts.fills.Add(1)
	c.filling = true
	// This is not what the store has now, so only developers should read it.
	c.log.Debug("listed the state before the window", "revision", from, "objects", objects.Len(), "store_revision", now)
	return nil
}

// fillReach returns how many revisions before the present one the fill begins. An external etcd
// reads all of them into its memory at once, so their size should not exceed that of the
// window by much. Their size is not known, but some of the present objects show how large values
// are. The memory of this process does not depend on the guess, because the watch reads at
// the pace of the cacher, and the window is trimmed meanwhile.
//
// Nor should the reach have many more changes than the window. Ten times a second, etcd reads the
// rest of a backlog, and sends 1,000 revisions of it.
func (c *Cacher) fillReach(ctx context.Context, now object.Position) object.Revision {
	reach := lookback * c.cfg.Window.MaxChanges
	// Without an answer, reach is as usual. The caller lists next, and reports the error. The first page
	// of a scan costs etcd little; for a short list, it would count all keys.
	for records := range c.scan(ctx, now.Revision) {
		bytes := 0
		for i := range records {
			bytes += len(records[i].Key) + len(records[i].Value)
		}
		if bytes > 0 {
			// A change counts about four times its value: the object before and after it, and
			// both encoded. So this is four times what the window holds.
			reach = min(reach, max(minReach, max(c.cfg.Window.MaxBytes, minReachBytes)*len(records)/bytes))
		}
		break
	}
	if reach <= probes[len(probes)-1] {
		return object.Revision(reach)
	}
	enough, estimate := 2*c.cfg.Window.MaxChanges, reach
	for _, probe := range probes {
		if object.Revision(probe) >= now.Revision {
			return object.Revision(reach)
		}
		changes, err := c.changesSince(ctx, object.Position{Epoch: now.Epoch, Revision: now.Revision - object.Revision(probe)}, now.Revision)
		n := len(changes)
		switch {
		case errors.Is(err, object.ErrCompacted): // a larger probe would fail, too; the fill finds where the history begins
			return object.Revision(reach)
		case err != nil: // the store is slow
			return object.Revision(min(reach, estimate))
		case n >= enough:
			return min(object.Revision(reach), now.Revision-changes[n-enough]+1)
		case n > 0:
			estimate = max(probe, enough*probe/n)
		}
		if n >= c.cfg.Window.MaxChanges {
			break
		}
	}
	return object.Revision(min(reach, estimate))
}

// probes are how many of the last revisions the cacher looks at, until they have the changes of the
// window. Without that in the largest probe, the number follows from the changes there. Large
// transactions should need only small probes: to split a large answer costs etcd the square of its
// changes.
var probes = []int{16, 64, 256, 1024}

// changesSince returns the revision of each change between two revisions, if the store answers in time.
func (c *Cacher) changesSince(ctx context.Context, after object.Position, through object.Revision) (changes []object.Revision, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ReadWait)
	defer cancel()
	watch, err := c.cfg.Store.Watch(ctx, object.Scope{}, after, false)
	if err != nil {
		return nil, err
	}
	defer watch.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { c.runProgressTicker(ctx, watch) })
	c.progress.wait()
	defer c.progress.done()
	for {
		u, err := watch.Next(ctx)
		if err != nil {
			return nil, err
		}
		for i := range u.Records {
			if at := u.Records[i].ModRevision; at <= through {
				changes = append(changes, at)
			}
		}
		if u.Through >= through {
			return changes, nil
		}
	}
}

// minReach and minReachBytes are the smallest limits of the history to read.
const (
	minReach      = 16
	minReachBytes = 64 << 20
)

// checkEpoch returns ErrEpochChanged if the store is no longer in the epoch. Call it
// after listing in several steps: a past epoch never returns, so all steps were in it.
func (c *Cacher) checkEpoch(ctx context.Context, epoch object.Epoch) error {
	now, err := c.cfg.Store.Epoch(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the epoch of the store: %w", err)
	case now != epoch:
		return ErrEpochChanged
	}
	return nil
}

// follow applies the updates of a watch until it fails.
func (c *Cacher) follow(ctx context.Context, attempts *backoff.Backoff) error {
	watch, err := c.cfg.Store.Watch(ctx, object.Scope{}, object.Position{Epoch: c.storeEpoch, Revision: c.position.Revision}, false)
	if err != nil {
		return fmt.Errorf("open a watch: %w", err)
	}
	defer watch.Close()
	c.fresh.Doubt()

	// These goroutines may decide to give up a watch that has not failed, and otherwise end with ctx.
	ctx, giveUp := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer giveUp(nil)
	wg.Go(func() { c.runProgressTicker(ctx, watch) })
	wg.Go(func() { giveUp(c.runWatchdog(ctx)) })
	wg.Go(func() { giveUp(c.watchKeys(ctx)) })
	epoch := c.storeEpoch
	wg.Go(func() { giveUp(c.runSelfCheck(ctx, epoch)) })
	if c.position.Revision >= c.publishFrom { // otherwise, reaching it is the confirmation
		wg.Go(func() {
			if c.confirm(ctx) {
				c.following.Store(true)
			}
		})
	}

	// Readers wait until the state reaches publishFrom, so progress is urgent. If that
	// revision has been reached already, the state is complete: etcd would not answer
	// progress requests of a watch that begins in the future.
	c.progress.wait()
	reached := sync.OnceFunc(c.progress.done)
	defer reached()
	c.advance(c.position.Revision)
	for updates := 0; ; updates++ {
		complete := c.position.Revision >= c.publishFrom
		if complete {
			reached()
		}
		if complete && !c.following.Load() {
			if c.fresh.live.Load() {
				c.following.Store(true)
			} else {
				c.checkSoon() // the update may be an old one
			}
		}
		if complete && updates > 0 { // each watch may fail at once
			attempts.Reset()
		}
		update, err := watch.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		c.updates.Add(1)
		if err := c.checkKeys(update.Records); err != nil {
			return err
		}
		c.apply(update)
		c.lastContact.note(c.received)
		c.fresh.Updated(c.received)
	}
}
