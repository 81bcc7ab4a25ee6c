package object

import "fmt"

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
