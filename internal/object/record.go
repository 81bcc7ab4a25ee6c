package object

import (
	"context"
	"time"
)

// OpKind says what an [Op] does.
type OpKind uint8

// The kinds of operations.
const (
	OpPut    OpKind = iota + 1 // store Value under Key
	OpDelete                   // remove Key
	OpCheck                    // write nothing, only require If
)

// Op is one step of a write. A write is one or more of them, each on a key of
// its own, applied at one revision or not at all.
type Op struct {
	Kind  OpKind
	Key   Key
	Value []byte        // put: the value as the store keeps it
	TTL   time.Duration // put: remove the key after this time; 0: never
	If    *Revision     // the mod revision the key must have, 0: must not exist; nil: any
}

// Commit is the outcome of a write that was applied.
type Commit struct {
	Revision Revision // of all its changes; of the comparison if there were none
	Deleted  []bool   // for each operation: whether it removed a key
}

// RewriteResult says what became of records that were read to be stored anew where they
// are not stored as they would be today.
type RewriteResult struct {
	Examined      int   // so many records were looked at
	Rewritten     int   // of them, so many were stored anew
	Undecryptable int   // so many could not be, because their values cannot be read
	Contended     int   // so many were written by others meanwhile, again and again, and not as today
	More          bool  // there are more records
	Next          Key   // where they begin
	Remaining     int64 // about how many there are
}

// Stream is a running watch of a store. Next and RequestProgress may be called
// from different goroutines, Next from one at a time.
type Stream interface {
	// Next waits for and returns what comes next. After an error the stream is
	// over.
	Next(ctx context.Context) (Update, error)

	// RequestProgress asks for an update that says how far the stream is. The
	// store may stay silent while the stream has changes to catch up with.
	RequestProgress(ctx context.Context) error

	// Close ends the stream and waits for its goroutines.
	Close()
}

// Update is a piece of a store's history.
type Update struct {
	// Records are the next changes in order of revision; all records of one
	// revision are in one update. May be empty.
	Records []Record

	// Through says that every change up to this revision has been delivered, by
	// this update and those before it. It never lies below the last record.
	Through Revision
}

// Record is a key as the store holds it, or its deletion.
type Record struct {
	Key            Key
	Value          []byte // may share memory with the store; must not be modified
	CreateRevision Revision
	ModRevision    Revision // of a deletion: the revision of the deletion
	Version        int64
	Deleted        bool // the key was deleted; only Key and ModRevision are set

	// Undecryptable says why there is no value. It is nil if the value is readable.
	Undecryptable *UndecryptableError
}
