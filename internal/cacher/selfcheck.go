package cacher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/object"
)

// runSelfCheck compares the state with the store of the epoch at intervals until ctx is
// done. It returns errMismatch when they differ. That should never happen. If it does,
// the self-check ends what would otherwise be wrong for ever, whether the bug is here or
// in the store.
func (c *Cacher) runSelfCheck(ctx context.Context, epoch object.Epoch) error {
	if c.cfg.CheckInterval <= 0 {
		<-ctx.Done()
		return nil
	}
	// The first check comes at a random time, so that replicas and resources do not
	// all list at once.
	for wait := rand.N(c.cfg.CheckInterval) + 1; backoff.Sleep(ctx, wait); wait = c.cfg.CheckInterval {
		err := c.compareWithStore(ctx, c.State())
		if errors.Is(err, errMismatch) {
			// The store may have changed its epoch while it was listed.
			if changed := c.checkEpoch(ctx, epoch); changed != nil {
				err = changed
			}
		}
		switch {
		case errors.Is(err, errMismatch):
			c.counts.mismatches.Add(1)
			return err
		case errors.Is(err, ErrEpochChanged):
			return err
		case err != nil && ctx.Err() == nil:
			c.log.Info("cannot compare the state with the store", "error", err)
		}
	}
	return nil
}

// compareWithStore lists the store at the revision of the state and compares both,
// object by object and byte by byte.
func (c *Cacher) compareWithStore(ctx context.Context, s *State) error {
	if s == nil {
		return nil
	}
	ours, stop := iter.Pull(s.Objects(object.Scope{}, ""))
	defer stop()
	for r, err := range inPages(c.scan(ctx, s.Revision())) {
		if errors.Is(err, object.ErrCompacted) {
			return nil // the next check lists a newer revision
		}
		if err != nil {
			return fmt.Errorf("list at revision %d: %w", s.Revision(), err)
		}
		theirs, _ := c.decode(r)
		o, ok := ours()
		switch {
		case !ok || o.Key > theirs.Key:
			return fmt.Errorf("%w at revision %d: key %q is missing", errMismatch, s.Revision(), theirs.Key)
		case o.Key < theirs.Key:
			return fmt.Errorf("%w at revision %d: key %q does not exist", errMismatch, s.Revision(), o.Key)
		case o.Undecryptable() != theirs.Undecryptable() && o.ModRevision == theirs.ModRevision:
			// A decryption key has arrived, and the cacher is about to fill again. Or a
			// key was removed: the cacher goes on serving the value that it knows.
		case !bytes.Equal(o.Encoded(), theirs.Encoded()):
			return fmt.Errorf("%w at revision %d: key %q is not the same", errMismatch, s.Revision(), o.Key)
		}
	}
	if o, ok := ours(); ok {
		return fmt.Errorf("%w at revision %d: key %q does not exist", errMismatch, s.Revision(), o.Key)
	}
	return nil
}
