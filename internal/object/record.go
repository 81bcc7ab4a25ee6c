package object

import (
	"context"
	"time"
)

// OpKind is the kind of an [Op].
type OpKind uint8

// The kinds of operations.
const (
	OpPut    OpKind = iota + 1 // store Value under Key
	OpDelete                   // remove Key
	OpCheck                    // write nothing, only check If
)

// Op is one operation of a write. The operations of a write have distinct keys. The store
// applies all of them at one revision, or none.
type Op struct {
	Kind  OpKind
	Key   Key
	Value []byte        // put: the encoded value
	TTL   time.Duration // put: remove the key after this time; 0: never

	// KeepTTL makes a put keep the time to live of the existing key, if it has one. TTL is
	// 0 then.
	KeepTTL bool

	// ReturnDeleted makes a delete return the record that it deletes. ReturnCurrent makes a
	// failed write return the current record of the key, if the operation has If.
	ReturnDeleted, ReturnCurrent bool

	If *Revision // required mod revision of the key; 0: must not exist; nil: no precondition

	// Seen is the object that the operation replaces or deletes, and that the server has checked; nil:
	// any object may be replaced. If the key has another mod revision, the write fails with a
	// [*StaleError].
	Seen *Seen

	// ReplaceOpaque allows the operation to replace or delete an opaque object although it has Seen.
	ReplaceOpaque bool

	// Recording is what the history keeps of the operation; nil: nothing.
	Recording *Recording
}

// Recording is what an operation adds to the history of its resource. Package history makes it.
type Recording struct {
	Tail          string // of the names of the record
	Change, Value []byte // of the index and of the record
}

// Seen is what the server knows of the object with a key. The mod revision and the lease belong
// together: as long as a key has that mod revision, it has that lease.
type Seen struct {
	ModRevision Revision // 0: there is no object; [Unseen]: the server does not know a valid one
	Lease       int64    // the store's lease that the key is attached to; 0: none
}

// Unseen is a mod revision that no key has, not even one that does not exist.
const Unseen Revision = -1

// Required returns the mod revision that the key of an applied operation has had before. It
// returns false if that may be any.
func (op *Op) Required() (Revision, bool) {
	switch {
	case op.If != nil:
		return *op.If, true
	case op.Seen != nil:
		return op.Seen.ModRevision, true
	}
	return 0, false
}

// Implied reports whether the server compares the object that the operation replaces, and the caller has set no
// precondition of its own. If only such a comparison fails, the write is sent again.
func (op *Op) Implied() bool { return op.Seen != nil && op.If == nil }

// Commit is the result of an applied write.
type Commit struct {
	Revision Revision // of the changes; of the comparison if there were no changes
	Deleted  []bool   // for each operation: whether it deleted a key
	Leases   []int64  // for each operation: the lease granted for its time to live; 0: none

	// Records has an entry for each operation: what a delete with ReturnDeleted deleted.
	Records []*Record
}

// RewriteResult is the result of rewriting a range of records in their current stored
// form, for example with a new encryption key.
type RewriteResult struct {
	Examined      int // number of records read
	Rewritten     int // number of these that were rewritten
	Undecryptable int // number of these that could not be read, and were left unchanged

	// Contended is the number of records that another writer changed during the rewrite,
	// again to an outdated form.
	Contended int

	More      bool  // more records follow
	Next      Key   // start of the next records
	Remaining int64 // approximate number of remaining records
}

// Watch is a running watch of a store. Only one goroutine at a time may call Next.
type Watch interface {
	// Next waits for the next update. After an error, the caller closes the watch.
	Next(ctx context.Context) (Update, error)

	// RequestProgress requests an update that reports the progress of the watch. The
	// store may not answer while the watch is catching up. It may be called concurrently with the
	// other methods, and fails after Close.
	RequestProgress(ctx context.Context) error

	// Close ends the watch and waits for its goroutines.
	Close()
}

// Update is a part of the history of a store.
type Update struct {
	// Records are the next changes in order of revision. All records of one revision are
	// in one update. Records may be empty.
	Records []Record

	// Previous has the record before each change, if the watch asked for it; nil: there was none,
	// or the store has forgotten it.
	Previous []*Record

	// Through is the revision up to which this update and earlier ones are complete. It
	// is at least the revision of the last record.
	Through Revision
}

// Record is a key as the store holds it, or its deletion.
type Record struct {
	Key            Key
	Value          []byte // may share memory with the store; must not be modified
	CreateRevision Revision
	ModRevision    Revision // of a deletion: the revision of the deletion
	Version        int64
	Lease          int64 // the store's lease that the key is attached to; 0: none
	Deleted        bool  // the key was deleted; only Key and ModRevision are set

	// Undecryptable is why there is no value. It is nil if the value is readable.
	Undecryptable *UndecryptableError
}
