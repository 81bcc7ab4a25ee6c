package cacher

import (
	"context"
	"iter"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Store holds the objects of one resource. All keys are relative to the resource.
//
// Errors wrap [object.ErrCompacted] if the requested revision is gone, and
// [object.ErrUnavailable] if a later attempt may succeed. All methods are safe for
// concurrent use.
type Store interface {
	// Epoch returns the identity of the store's revision space.
	Epoch(ctx context.Context) (object.Epoch, error)

	// Revision returns the store's revision. It is at least as new as every write
	// that was acknowledged before the call (a linearizable read).
	Revision(ctx context.Context) (object.Revision, error)

	// Oldest returns the oldest revision between floor (at least 1) and ceiling that
	// can still be listed. Ceiling is the store's present revision.
	Oldest(ctx context.Context, floor, ceiling object.Revision) (object.Revision, error)

	// List returns at most limit records of the scope with keys from start on, in ascending
	// byte order of keys, as of the revision. It returns fewer if they have more than a few MiB
	// together, but at least one if more is true: records remain then.
	List(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) (records []object.Record, more bool, err error)

	// Watch delivers every change of the scope after the position, with the records before
	// them if previous is set. The caller closes the watch.
	//
	// The watch ends when the store's epoch changes, and with [object.ErrAnswerTooLarge] if
	// the store cannot send a change because of its size. While the caller does not call
	// Next, the store reads little more. Watch returns [object.ErrUnavailable] if the
	// position is not of the store's epoch.
	Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error)
}

// Scanner is a store that reads a whole resource at a lower cost than page by page.
type Scanner interface {
	// Scan returns all records as of the revision, in ascending byte order of keys, a few MiB at a
	// time. An error, which is one of List, ends the sequence.
	Scan(ctx context.Context, at object.Revision) iter.Seq2[[]object.Record, error]
}

// Keys are the keys that the store decrypts values with. All methods are safe for
// concurrent use.
type Keys interface {
	// Has reports whether the key with this id is available.
	Has(id uint32) bool

	// Changed returns a channel that is closed at the next change of the keys.
	Changed() <-chan struct{}

	// Fingerprint identifies the set of keys: equal sets have equal fingerprints.
	Fingerprint() string
}
