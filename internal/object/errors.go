package object

import (
	"errors"
	"fmt"
)

// ErrCompacted means that the store no longer has the requested revision. The reader of
// the history starts over from the current state.
var ErrCompacted = errors.New("revision has been compacted")

// ErrUnavailable means that the store cannot answer now: it has no leader or no
// connection, or it timed out. The same request may succeed later.
var ErrUnavailable = errors.New("store is unavailable")

// FormingError means that the cluster of this server accepts no writes yet, because too few of its
// servers vote. It is an [ErrUnavailable]. Nothing was written.
type FormingError struct{ Voters, Needed int }

func (e *FormingError) Error() string {
	return fmt.Sprintf("the cluster is being formed: writes need %d voting members, and it has %d", e.Needed, e.Voters)
}

func (e *FormingError) Unwrap() error { return ErrUnavailable }

// ErrNotApplied means that a write was not applied, and never will be, because the store did not answer before
// it was sent, or had no leader. It is an [ErrUnavailable].
var ErrNotApplied = fmt.Errorf("%w: the write was not applied", ErrUnavailable)

// ErrCorrupt means that the members of a cluster have different data. Until an operator has replaced one of
// them, the store refuses writes and linearizable reads. It is an [ErrUnavailable].
var ErrCorrupt = fmt.Errorf("%w: the members of the cluster have different data", ErrUnavailable)

// ErrAnswerTooLarge means that the store or a proxy cannot send an answer because of its size.
// A reader of changes goes on with a list, which is read in smaller pieces. It is an
// ErrUnavailable.
var ErrAnswerTooLarge = fmt.Errorf("%w: the answer is too large to send", ErrUnavailable)

// ErrNoSpace means that the store is full and refuses writes. Reads still work. An
// operator must free space. The failed write itself may have been applied, because etcd
// checks the quota before and after a write.
var ErrNoSpace = errors.New("store is out of space")

// ErrContended means that a write with records in the history was not applied, because other servers
// recorded later writes first each time. Nothing was written.
var ErrContended = errors.New("other servers were faster to record their writes")

// ErrTooLarge means that the write exceeds the size limit of the store. Nothing was
// written. The caller must make the write smaller.
var ErrTooLarge = errors.New("write is too large for the store")

// RecordTooLargeError means that a write and its record in the history do not fit into one request of
// the store together. Nothing was written. It wraps [ErrTooLarge].
type RecordTooLargeError struct{ Bytes, Limit int }

func (e *RecordTooLargeError) Error() string {
	return fmt.Sprintf("the write and its record in the history have %d bytes together, and etcd accepts %d at once: "+
		"write smaller values, or fewer of them, or turn off the setting history of the resource", e.Bytes, e.Limit)
}

func (e *RecordTooLargeError) Unwrap() error { return ErrTooLarge }

// TooManyOperationsError means that a write with its records in the history has more operations than etcd
// accepts in a transaction. Nothing was written. It wraps [ErrTooLarge].
type TooManyOperationsError struct{ Needed int }

func (e *TooManyOperationsError) Error() string {
	return fmt.Sprintf("the transaction and its records in the history are %d operations for etcd, which accepts fewer: "+
		"write fewer keys at once, or start etcd with --max-txn-ops=%d", e.Needed, e.Needed)
}

func (e *TooManyOperationsError) Unwrap() error { return ErrTooLarge }

// ConflictError means that a precondition of a write did not hold. Nothing was written.
// The caller reads the current state and decides again; repeating the same write does
// not help.
type ConflictError struct {
	// Current has an entry for each operation: the record of its key, if the operation has
	// ReturnCurrent and If, and the key exists.
	Current []*Record

	Key  Key      // the first key whose precondition failed
	Want Revision // the required mod revision; 0: the key must not exist
	Have Revision // the actual mod revision; 0: the key does not exist
	At   Revision // the revision of the store at the comparison
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("key %q is required to have mod revision %d, has %d (at revision %d)", e.Key, e.Want, e.Have, e.At)
}

// StaleError means that a write would have replaced an object that the server has not checked,
// although the preconditions of the caller hold. Nothing was written. The server checks the
// current objects and tries again.
type StaleError struct {
	Have []Revision // for each operation with Seen: the mod revision of its key; 0: the key does not exist
	At   Revision   // the revision of the store at the comparison
}

func (e *StaleError) Error() string { return "an object has changed since the server checked it" }

// UndecryptableError means that a value is stored encrypted and cannot be decrypted. The
// object is served as opaque and without a value. Only the store sees the stored bytes.
type UndecryptableError struct {
	// KeyID is the id of the encryption key in the stored bytes. It is 0 if the bytes
	// are too damaged to contain one.
	KeyID uint32

	// Missing means that the keyset has no such key. The key may be added later. If
	// Missing is false, the stored bytes are damaged or belong to another etcd key.
	Missing bool
}

func (e *UndecryptableError) Error() string {
	switch {
	case e.Missing:
		return fmt.Sprintf("the value is encrypted with key %d, which is not in the keyset", e.KeyID)
	case e.KeyID != 0:
		return fmt.Sprintf("the value is damaged, or was encrypted with key %d for another etcd key", e.KeyID)
	}
	return "the stored value is damaged, or was written by a later version"
}
