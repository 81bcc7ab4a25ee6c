package cacher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// lookback is how many revisions before the present filling begins, as a
// multiple of the window's size in changes. It is more than one because the other
// resources and programs write revisions, too; it is bounded because the store
// reads all of its history in between to answer. A guess.
const lookback = 10

// session follows the store from where the cacher is until something fails. It
// calls settled when it has caught up with the store.
func (c *Cacher) session(ctx context.Context, settled func()) error {
	epoch, err := c.cfg.Store.Epoch(ctx)
	if err != nil {
		return fmt.Errorf("learn the epoch of the store: %w", err)
	}
	c.relock = c.relocked() || c.relock
	if c.objects == nil || c.discredited || c.relock || epoch != c.storeEpoch {
		if err := c.fill(ctx, epoch); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	err = c.follow(ctx, settled)
	for errors.Is(err, object.ErrCompacted) {
		c.log.Warn("the store has compacted what comes next, listing again", "revision", c.position.Revision)
		if err = c.relist(ctx); err == nil {
			err = c.follow(ctx, settled)
		}
	}
	c.discredited = errors.Is(err, errWentBack) || errors.Is(err, errMismatch)
	return fmt.Errorf("follow from revision %d: %w", c.position.Revision, err)
}

// name returns the epoch that readers see. Where positions that were given out do
// not mean what they should, because the store went back and calls itself the
// same, or because the state was wrong, it is a new one, so that nobody builds on
// them.
func (c *Cacher) name(epoch object.Epoch) object.Epoch {
	if c.discredited && epoch == c.storeEpoch {
		epoch = object.Epoch(fmt.Sprintf("%s~%08x", epoch, rand.Uint32()))
	}
	if c.locked {
		epoch = c.missing.Mark(epoch)
	}
	return epoch
}

// fill lists the state at an older revision, from which the watch brings it to
// the present and fills the window on the way.
func (c *Cacher) fill(ctx context.Context, epoch object.Epoch) error {
	now, err := c.cfg.Store.Revision(ctx)
	if err != nil {
		return fmt.Errorf("learn the revision of the store: %w", err)
	}
	floor := max(1, now-object.Revision(lookback*c.cfg.Window.MaxChanges))
	from, err := c.cfg.Store.Oldest(ctx, floor, now)
	if err != nil {
		return fmt.Errorf("find the oldest revision from %d on: %w", floor, err)
	}
	c.opaque.begin(epoch)
	objects, traces, unreadable := newTree(), newTraces(from, c.cfg.MaxTombstones), 0
	err = c.list(ctx, from, func(r *object.Record) {
		c.missing.Note(r)
		o := c.build(r)
		unreadable += undecryptable(o)
		objects.Set(o)
		traces.put(nil, o)
	})
	if err != nil {
		return fmt.Errorf("list at revision %d: %w", from, err)
	}
	if err := c.stillIn(ctx, epoch); err != nil {
		return err
	}
	c.objects, c.traces, c.unreadable = objects, traces, unreadable
	c.locked, c.relock = c.missing.Any(), false
	c.position = object.Position{Epoch: c.name(epoch), Revision: from}
	c.storeEpoch, c.discredited = epoch, false
	c.reached.Store(int64(from))
	c.window = window{after: from}
	c.relisted = 0
	c.target = now
	c.counts.fills.Add(1)
	c.log.Info("listed", "epoch", epoch, "revision", from, "objects", objects.Len(), "store_revision", now)
	return nil
}

// relist lists the state at the present and applies the difference to the known
// state as changes of that revision.
func (c *Cacher) relist(ctx context.Context) error {
	now, err := c.cfg.Store.Revision(ctx)
	if err != nil {
		return fmt.Errorf("learn the revision of the store: %w", err)
	}
	if now < c.position.Revision {
		return errWentBack
	}
	// Collected first and applied only when complete, so that a failure on the
	// way leaves the state as it was.
	var records []object.Record
	if err := c.list(ctx, now, func(r *object.Record) { records = append(records, *r) }); err != nil {
		return fmt.Errorf("list at revision %d: %w", now, err)
	}
	if err := c.stillIn(ctx, c.storeEpoch); err != nil {
		return err
	}
	if err := c.unlock(records); err != nil {
		return err
	}
	before := c.window.count
	c.now = time.Now()
	c.traces.jump(c.position.Revision, now)
	c.applyDifference(records, now)
	c.relisted = now
	c.target = now
	c.counts.relists.Add(1)
	c.log.Info("listed again", "revision", now, "objects", len(records), "differences", c.window.count-before)
	c.advance(now)
	return nil
}

// errOtherEpoch says that what was read may be of two histories.
var errOtherEpoch = errors.New("the store has become another one meanwhile")

// stillIn returns an error if the store is not in the epoch any more. It is asked
// when something has been listed in several steps: an epoch that is over does not
// come back, so all of them were in it.
func (c *Cacher) stillIn(ctx context.Context, epoch object.Epoch) error {
	now, err := c.cfg.Store.Epoch(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("learn the epoch of the store: %w", err)
	case now != epoch:
		return errOtherEpoch
	}
	return nil
}

// applyDifference changes the state into the given records, which are in order
// of keys. The changes are told in the order in which they were made, as far as that
// is known: of deletions it is only known that they have been made by now.
func (c *Cacher) applyDifference(records []object.Record, at object.Revision) {
	type difference struct {
		key object.Key
		at  object.Revision
		now *object.Object
	}
	var all []difference
	known := c.objects.Copy().Iter()
	defer known.Release()
	more := known.First()
	for i := range records {
		r := &records[i]
		for more && known.Item().Key < r.Key {
			all = append(all, difference{key: known.Item().Key, at: at})
			more = known.Next()
		}
		if more && known.Item().Key == r.Key {
			same := known.Item().ModRevision == r.ModRevision
			more = known.Next()
			if same {
				continue
			}
		}
		all = append(all, difference{r.Key, r.ModRevision, c.build(r)})
	}
	for ; more; more = known.Next() {
		all = append(all, difference{key: known.Item().Key, at: at})
	}
	slices.SortStableFunc(all, func(a, b difference) int { return cmp.Compare(a.at, b.at) })
	for _, d := range all {
		c.change(d.key, at, d.now)
	}
}

// list calls visit with every record of the resource at the revision, in order of
// keys, a page at a time.
func (c *Cacher) list(ctx context.Context, at object.Revision, visit func(*object.Record)) error {
	start := object.Key("")
	for {
		records, more, err := c.cfg.Store.List(ctx, at, start, c.cfg.PageSize)
		if err != nil {
			return err
		}
		for i := range records {
			visit(&records[i])
		}
		if !more {
			return nil
		}
		if len(records) == 0 {
			return fmt.Errorf("the store returned an empty page and says there is more after %q", start)
		}
		start = records[len(records)-1].Key + "\x00"
	}
}

// follow applies the updates of a watch until it fails.
func (c *Cacher) follow(ctx context.Context, settled func()) error {
	stream, err := c.cfg.Store.Watch(ctx, object.Position{Epoch: c.storeEpoch, Revision: c.position.Revision})
	if err != nil {
		return fmt.Errorf("open a watch: %w", err)
	}
	defer stream.Close()

	// Besides the stream itself, two others may find that it is to be given up.
	ctx, giveUp := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer giveUp(nil)
	wg.Go(func() { c.pulse(ctx, stream) })
	wg.Go(func() {
		if err := c.heed(ctx); err != nil {
			giveUp(err)
		}
	})
	wg.Go(func() {
		if err := c.awaitKeys(ctx); err != nil {
			giveUp(err)
		}
	})
	epoch := c.storeEpoch
	wg.Go(func() {
		if err := c.audit(ctx, epoch); err != nil {
			giveUp(err)
		}
	})

	// Until the target is reached somebody is waiting: the whole server. A watch
	// of what is still to come is there already; etcd would not even answer its
	// progress requests.
	caughtUp := false
	c.progress.wait()
	defer func() {
		if !caughtUp {
			c.progress.done()
		}
	}()
	c.advance(c.position.Revision)
	for {
		if !caughtUp && c.position.Revision >= c.target {
			caughtUp = true
			c.progress.done()
			c.following.Store(true)
			settled()
		}
		update, err := stream.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		c.heard.Add(1)
		if err := c.unlock(update.Records); err != nil {
			return err
		}
		c.apply(update)
		if caughtUp && !c.following.Load() {
			c.following.Store(true)
		}
		c.heardAt.Store(c.now.UnixNano())
	}
}
