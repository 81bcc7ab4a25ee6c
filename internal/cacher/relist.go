package cacher

import (
	"context"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// relist lists the present state of the resource and turns the known state into it. The store
// has compacted the changes in between, so they are lost. The window starts empty: a reader
// must not mistake the difference for the changes. The change index has the difference.
func (c *Cacher) relist(ctx context.Context) error {
	asked := time.Now()
	now, err := c.cfg.Store.Revision(ctx)
	if err != nil {
		return fmt.Errorf("read the revision of the store: %w", err)
	}
	if now < c.position.Revision {
		return errWentBack
	}
	// Collect all records before applying any, so that a failure half-way leaves the
	// state as it was.
	var records []object.Record
	for r, err := range c.records(ctx, now, object.Scope{}, "") {
		if err != nil {
			return fmt.Errorf("list at revision %d: %w", now, err)
		}
		records = append(records, *r)
	}
	if err := c.checkEpoch(ctx, c.storeEpoch); err != nil {
		return err
	}
	if err := c.checkKeys(records); err != nil {
		return err
	}
	c.changes.addGap(c.position.Revision, now)
	differences := c.applyDifference(records, now)
	c.window = window{after: now}
	c.publishFrom, c.publishAsked = now, asked
	c.counts.relists.Add(1)
	c.log.Info("listed again", "revision", now, "objects", len(records), "differences", differences)
	c.advance(now)
	return nil
}

// applyDifference turns the state into the given records, which are in order of keys, and
// returns the number of keys that differ. The revisions of deletions are not known, so
// deletions count as changes of the revision of the list. They come last, because a key that
// was created again needs no tombstone any more.
func (c *Cacher) applyDifference(records []object.Record, at object.Revision) int {
	var deleted []object.Key
	changed := 0
	known := c.objects.Copy().Iter()
	defer known.Release()
	more := known.First()
	for i := range records {
		r := &records[i]
		for more && known.Item().Key < r.Key {
			deleted = append(deleted, known.Item().Key)
			more = known.Next()
		}
		if more && known.Item().Key == r.Key {
			same := known.Item().ModRevision == r.ModRevision
			more = known.Next()
			if same {
				continue
			}
		}
		c.replace(r.Key, r.ModRevision, c.build(r))
		changed++
	}
	for ; more; more = known.Next() {
		deleted = append(deleted, known.Item().Key)
	}
	for _, key := range deleted {
		c.replace(key, at, nil)
	}
	return changed + len(deleted)
}
