package cacher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// errMismatch says that the state is not what the store has.
var errMismatch = errors.New("the state differs from the store")

// audit compares the state with the store of the epoch at intervals until ctx is done. It
// returns errMismatch when they differ. That should never happen; if it does, a
// bug here or in the store would otherwise be served for ever.
func (c *Cacher) audit(ctx context.Context, epoch object.Epoch) error {
	if c.cfg.CheckInterval <= 0 {
		<-ctx.Done()
		return nil
	}
	// The first time at random, so that replicas and resources do not all list at
	// the same time.
	timer := time.NewTimer(rand.N(c.cfg.CheckInterval) + 1)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := c.compare(ctx, c.State())
		if errors.Is(err, errMismatch) {
			// It may have been compared with another history.
			if gone := c.stillIn(ctx, epoch); gone != nil {
				err = gone
			}
		}
		switch {
		case errors.Is(err, errMismatch):
			c.mismatches.Add(1)
			return err
		case errors.Is(err, errOtherEpoch):
			return err
		case err != nil && ctx.Err() == nil:
			c.log.Info("could not compare the state with the store", "error", err)
		}
		timer.Reset(c.cfg.CheckInterval)
	}
}

// compare lists the store at the revision of the state and compares them, object
// by object and byte by byte. The state is frozen; nobody waits.
func (c *Cacher) compare(ctx context.Context, s *State) error {
	if s == nil {
		return nil
	}
	mine, stop := iter.Pull(s.Objects(object.Scope{}, ""))
	defer stop()
	for theirs, err := range c.History(ctx, s.Revision(), object.Scope{}, "") {
		if errors.Is(err, object.ErrCompacted) {
			return nil // while it was being listed; there will be another occasion
		}
		if err != nil {
			return err
		}
		o, ok := mine()
		switch {
		case !ok || o.Key > theirs.Key:
			return fmt.Errorf("%w at revision %d: key %q is missing", errMismatch, s.Revision(), theirs.Key)
		case o.Key < theirs.Key:
			return fmt.Errorf("%w at revision %d: key %q does not exist", errMismatch, s.Revision(), o.Key)
		case o.Undecryptable != theirs.Undecryptable && o.ModRevision == theirs.ModRevision:
			// A key has come, and the state is about to be read anew. Or one has gone: what is
			// known is still served.
		case !bytes.Equal(o.Encoded, theirs.Encoded):
			return fmt.Errorf("%w at revision %d: key %q is not the same", errMismatch, s.Revision(), o.Key)
		}
	}
	if o, ok := mine(); ok {
		return fmt.Errorf("%w at revision %d: key %q does not exist", errMismatch, s.Revision(), o.Key)
	}
	return nil
}
