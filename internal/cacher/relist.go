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
	for r, err := range inPages(c.scan(ctx, now)) {
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

// applyDifference turns the state into the given records, and returns the number of keys that
// differ. The revisions of deletions are not known, so deletions count as changes of the revision
// of the list. They come last, because a key that was created again needs no tombstone any more.
func (c *Cacher) applyDifference(records []object.Record, at object.Revision) (differences int) {
	listed := make(map[object.Key]bool, len(records))
	for i := range records {
		r := &records[i]
		listed[r.Key] = true
		if known, ok := c.objects.Get(&object.Object{Key: r.Key}); ok && known.ModRevision == r.ModRevision {
			continue
		}
		c.replace(r.Key, r.ModRevision, c.build(r))
		differences++
	}
	c.objects.Copy().Scan(func(o *object.Object) bool {
		if !listed[o.Key] {
			c.replace(o.Key, at, nil)
			differences++
		}
		return true
	})
	return differences
}
