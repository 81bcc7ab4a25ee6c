package cacher

import (
	"context"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Store is what the cacher needs of the place where the objects of its resource
// are kept. All keys are relative to the resource.
//
// Errors wrap [object.ErrCompacted] where the asked revision is gone and
// [object.ErrUnavailable] where a later try may succeed. All methods may be
// called from any goroutine.
type Store interface {
	// Epoch returns the identity of the store's revision space.
	Epoch(ctx context.Context) (object.Epoch, error)

	// Revision returns the store's revision, not older than any write that was
	// acknowledged before the call (a linearizable read).
	Revision(ctx context.Context) (object.Revision, error)

	// Oldest returns the oldest revision from floor (at least 1) to ceiling, the
	// store's present revision, that can still be listed.
	Oldest(ctx context.Context, floor, ceiling object.Revision) (object.Revision, error)

	// List returns at most limit records with keys from start on, in ascending
	// byte order of keys, as they were at revision at, and whether there are more.
	List(ctx context.Context, at object.Revision, start object.Key, limit int) (records []object.Record, more bool, err error)

	// Watch streams every change after the position. The stream belongs to the
	// caller, who closes it. It ends when the store gets another epoch, and it is an
	// error, [object.ErrUnavailable], if the position is not of the store's epoch.
	Watch(ctx context.Context, after object.Position) (object.Stream, error)
}
