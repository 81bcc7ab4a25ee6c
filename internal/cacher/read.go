package cacher

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Consistency says how fresh a read has to be. The zero value is linearizable:
// not older than any write acknowledged before the read.
type Consistency struct {
	level consistencyLevel
	min   object.Revision
}

type consistencyLevel uint8

const (
	linearizable consistencyLevel = iota
	anyRevision
	minRevision
)

// Any is satisfied by whatever the cacher has; it neither waits nor asks.
func Any() Consistency { return Consistency{level: anyRevision} }

// AtLeast is satisfied by the given revision and every later one.
func AtLeast(r object.Revision) Consistency { return Consistency{level: minRevision, min: r} }

// Read returns a state that satisfies the consistency, waiting for it if need be.
//
// Errors: [ErrNotReady] where the cacher has no state yet, [*FutureError] where
// the asked revision does not exist yet, [*BehindError] where the cacher did not
// reach the revision in time, [object.ErrUnavailable] where the store could not
// be asked, and ctx.Err() where the caller gave up.
func (c *Cacher) Read(ctx context.Context, want Consistency) (*State, error) {
	s, _, err := c.reach(ctx, want)
	return s, err
}

// Reach waits like [Cacher.Read] and returns the oldest revision that satisfies
// the consistency, which the cacher has then reached. Readers who share a state
// compare it with that.
func (c *Cacher) Reach(ctx context.Context, want Consistency) (object.Revision, error) {
	_, needed, err := c.reach(ctx, want)
	return needed, err
}

// reach returns a state that satisfies the consistency, and the oldest revision that
// does. The state is the one that was looked at: the newest one may be of another
// epoch, where the revision means nothing.
func (c *Cacher) reach(ctx context.Context, want Consistency) (*State, object.Revision, error) {
	switch s := c.State(); want.level {
	case anyRevision:
		if s == nil {
			return nil, 0, ErrNotReady
		}
		return s, 0, nil
	case minRevision:
		if s != nil && s.Revision() >= want.min {
			return s, want.min, nil
		}
	}
	waiting, cancel := context.WithTimeout(ctx, c.cfg.ReadWait)
	defer cancel()
	before := c.State()
	now, err := c.current.get(waiting)
	if err != nil {
		return nil, 0, readError(ctx, err)
	}
	if before != nil && now < before.Revision() {
		// What is in memory is of a past that the store does not have. The
		// session will notice as well; until then there is nothing to be said.
		return nil, 0, fmt.Errorf("read at revision %d: %w: %w", now, object.ErrUnavailable, errWentBack)
	}
	needed := now
	if want.level == minRevision {
		if want.min > now {
			return nil, 0, &FutureError{Asked: want.min, Current: now}
		}
		needed = want.min
	}
	s, err := c.await(ctx, waiting, needed)
	return s, needed, err
}

// readError tells a caller who gave up from a store that did not answer in time.
func readError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		err = object.ErrUnavailable
	}
	return fmt.Errorf("learn the revision of the store: %w", err)
}

// await waits for a state that has reached the revision.
func (c *Cacher) await(ctx, waiting context.Context, needed object.Revision) (*State, error) {
	s := c.State()
	if s != nil && s.Revision() >= needed {
		return s, nil
	}
	c.progress.wait()
	defer c.progress.done()
	for {
		changed := c.ready
		if s = c.State(); s != nil {
			if s.Revision() >= needed {
				return s, nil
			}
			changed = s.superseded
		}
		select {
		case <-changed:
		case <-waiting.Done():
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case s == nil:
				return nil, ErrNotReady
			}
			return nil, &BehindError{Asked: needed, Have: s.Revision()}
		}
	}
}
