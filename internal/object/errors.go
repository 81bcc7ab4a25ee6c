package object

import (
	"errors"
	"fmt"
)

// ErrCompacted says that the store has forgotten the revision that was asked
// for. Whoever reads history starts over from the present.
var ErrCompacted = errors.New("revision has been compacted")

// ErrUnavailable says that the store cannot answer now: no leader, no
// connection, a timeout. The same request may succeed later.
var ErrUnavailable = errors.New("store is unavailable")

// ErrNoSpace says that the store refuses writes because it is full. Reads go on;
// an operator has to make room. The very write that finds it full may have been
// applied: etcd looks at the quota before and after.
var ErrNoSpace = errors.New("store is out of space")

// ErrTooLarge says that the store does not take a write of this size. Nothing was
// written; it has to be made smaller.
var ErrTooLarge = errors.New("write is too large for the store")

// ConflictError says that a precondition of a write did not hold, so nothing was
// written. The caller reads afresh and decides anew; sending the same write again
// does not help.
type ConflictError struct {
	Key  Key      // the first key whose precondition failed
	Want Revision // the revision it was required to have; 0: not to exist
	Have Revision // the revision it has; 0: it does not exist
	At   Revision // the store's revision when it was compared
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("key %q is required to have mod revision %d, has %d (at revision %d)", e.Key, e.Want, e.Have, e.At)
}

// UndecryptableError says that a value is stored encrypted and cannot be decrypted. Its
// object is served without a value, and as opaque: nobody but the store sees what is
// stored.
type UndecryptableError struct {
	// KeyID is the id of the key it says it was encrypted with; 0 where that cannot be
	// told, because what is stored is damaged.
	KeyID uint32

	// Missing says that there is no such key. It may come. Otherwise what is stored is
	// damaged, or was encrypted for another place.
	Missing bool
}

func (e *UndecryptableError) Error() string {
	switch {
	case e.Missing:
		return fmt.Sprintf("it is encrypted with key %d, which the keyset does not have", e.KeyID)
	case e.KeyID != 0:
		return fmt.Sprintf("it is damaged, or was encrypted with key %d for another key of etcd", e.KeyID)
	}
	return "what is stored is damaged, or of a later version"
}
