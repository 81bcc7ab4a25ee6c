package cacher

import (
	"context"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Read returns a state that satisfies the consistency. It waits for one if necessary. For an
// exact revision, that is a state at the revision or after it: its window may reach back.
//
// Errors: [ErrNotReady] if the cacher has no state yet, [*FutureError] if the requested
// revision does not exist yet, [*BehindError] if the cacher did not reach the revision
// in time, [object.ErrUnavailable] if the store did not answer, and ctx.Err() if ctx
// ended.
func (c *Cacher) Read(ctx context.Context, want object.Consistency) (*State, error) {
	s, _, err := c.Reach(ctx, want)
	return s, err
}

// Reach waits like [Cacher.Read], and also returns the oldest revision that satisfies the
// consistency: readers that share a state use it to decide whether the state is fresh enough. The
// state is the very one that Reach has examined, because a newer one may be of another epoch and
// have unrelated revisions.
func (c *Cacher) Reach(ctx context.Context, want object.Consistency) (*State, object.Revision, error) {
	switch s := c.State(); want.Level {
	case object.AnyRevision:
		if s == nil {
			return nil, 0, ErrNotReady
		}
		return s, 0, nil
	case object.AtLeast, object.Exactly:
		if s != nil && s.Revision() >= want.Revision {
			return s, want.Revision, nil
		}
	}
	before, asked := c.State(), time.Now()
	now, err := c.storeRevision.Get(ctx)
	if err != nil {
		return nil, 0, err
	}
	if before != nil && now < before.Revision() {
		// The state is of a past that the store no longer has. The watchdog will
		// notice, too; until then no answer is right.
		return nil, 0, fmt.Errorf("read at revision %d: %w: %w", now, object.ErrUnavailable, errWentBack)
	}
	needed := now
	if want.Level != object.Linearizable {
		if want.Revision > now {
			return nil, 0, &FutureError{Asked: want.Revision, Current: now}
		}
		needed = want.Revision
	}
	s, err := c.await(ctx, asked.Add(c.cfg.ReadWait), needed)
	if err == nil && s.Revision() >= now {
		c.fresh.Confirm(asked)
	}
	return s, needed, err
}

// lagTimeout limits the wait of MeasureLag for changes that may be on their way. A progress
// request takes a few milliseconds.
const lagTimeout = 500 * time.Millisecond

// MeasureLag returns the newest state, and by how many revisions the store was ahead of it. It
// first waits a moment for the cacher to reach the revision of the store. Without the wait, a
// resource that never changes would look far behind, because writes to other keys raise the
// revision of the store.
//
// Errors are those of [Cacher.Read].
func (c *Cacher) MeasureLag(ctx context.Context) (s *State, lag int64, err error) {
	now, err := c.storeRevision.Get(ctx)
	if err != nil {
		return nil, 0, err
	}
	waiting, cancel := context.WithTimeout(ctx, lagTimeout)
	defer cancel()
	_, _ = c.Read(waiting, object.Consistency{Level: object.AtLeast, Revision: now}) // on failure there is a lag
	if s = c.State(); s == nil {
		return nil, 0, ErrNotReady
	}
	return s, int64(max(0, now-s.Revision())), nil
}

// await waits until the deadline for a state that has reached the revision.
func (c *Cacher) await(ctx context.Context, deadline time.Time, needed object.Revision) (*State, error) {
	s := c.State()
	if s != nil && s.Revision() >= needed {
		return s, nil
	}
	waiting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
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
