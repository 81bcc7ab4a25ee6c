package history

import (
	"context"
	"iter"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Range is a range of keys of a history.
type Range struct {
	From, End object.Key // empty End: only From
	Limit     int        // 0: none
	KeysOnly  bool       // the records have no values
}

// Store is what this package needs of the store of a history. The keys of its records are those of this
// package. Their create revision is the revision of the write.
type Store interface {
	// Epoch returns the epoch of the store. It asks the store only if the epoch is unknown or may have changed.
	Epoch(ctx context.Context) (object.Epoch, error)

	// Read reads ranges as of one revision, 0 for the present one, and returns it. It is linearizable.
	Read(ctx context.Context, at object.Revision, ranges []Range) ([][]object.Record, object.Revision, error)

	// Present returns the objects of the resource with the keys, without values, as of a revision. An
	// object that does not exist is nil.
	Present(ctx context.Context, at object.Revision, keys []object.Key) ([]*object.Record, error)

	// Names returns the keys of all records in order, some at a time, without the index.
	Names(ctx context.Context) iter.Seq2[[]object.Record, error]

	// Remove removes keys. It is not one transaction.
	Remove(ctx context.Context, keys []object.Key) error

	// Replace replaces the value of a key if it still has the mod revision.
	Replace(ctx context.Context, key object.Key, value []byte, modRevision object.Revision) (bool, error)

	// MaxWriteBytes is the size of the largest write that the store accepts.
	MaxWriteBytes() int
}
