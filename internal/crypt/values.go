package crypt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// magic begins what is not stored as it is. No JSON document, no protobuf message (no
// field has number 0) and no envelope of the codec "object" begins so.
var magic = []byte("\x00fanoutd")

// What follows the magic.
const (
	kindPlain     = 0 // the value, which begins with the magic itself
	kindEncrypted = 1 // Tink's ciphertext
)

// Tink's prefix: a byte, and the id of the key, big-endian.
const (
	tinkStart  = 1
	tinkPrefix = 5
)

// Values turns the values of a resource into what is stored in etcd and back. Whatever
// it makes of values, it reads what any other has made of them that has the same keys.
type Values struct {
	ring    *Keyring
	encrypt bool
}

// Values returns what encrypts values, or writes them plain, with the keys of the ring.
func (r *Keyring) Values(encrypt bool) *Values { return &Values{r, encrypt} }

// Encrypts reports whether values are encrypted.
func (v *Values) Encrypts() bool { return v.encrypt }

// Seal returns what is to be stored under a key of etcd for a value, which it may
// share memory with.
func (v *Values) Seal(etcdKey string, value []byte) ([]byte, error) {
	if !v.encrypt {
		if bytes.HasPrefix(value, magic) {
			return slices.Concat(magic, []byte{kindPlain}, value), nil
		}
		return value, nil
	}
	keys := v.ring.present()
	if keys.aead == nil {
		return nil, errors.New("there are no keys to encrypt values with")
	}
	ciphertext, err := keys.aead.Encrypt(value, []byte(etcdKey))
	if err != nil {
		return nil, fmt.Errorf("encrypt a value: %w", err)
	}
	return slices.Concat(magic, []byte{kindEncrypted}, ciphertext), nil
}

// Open returns the value of what is stored under a key of etcd, which it may share
// memory with, or an error that says why it cannot be decrypted.
func (v *Values) Open(etcdKey string, stored []byte) ([]byte, *object.UndecryptableError) {
	kind, rest := split(stored)
	switch {
	case rest == nil:
		return stored, nil
	case kind == kindPlain:
		return rest, nil
	}
	id, ok := keyOf(kind, rest)
	if !ok {
		return nil, &object.UndecryptableError{}
	}
	keys := v.ring.present()
	if !keys.has(id) {
		return nil, &object.UndecryptableError{KeyID: id, Missing: true}
	}
	value, err := keys.aead.Decrypt(rest, []byte(etcdKey))
	if err != nil {
		return nil, &object.UndecryptableError{KeyID: id}
	}
	return value, nil
}

// Fresh reports whether what is stored is what Seal would make today: encrypted with
// the primary key, or plain.
func (v *Values) IsCurrent(stored []byte) bool {
	kind, rest := split(stored)
	if !v.encrypt {
		return rest == nil || kind == kindPlain
	}
	if rest == nil {
		return false
	}
	id, ok := keyOf(kind, rest)
	return ok && id == v.ring.present().primary
}

// Primary returns the id of the key that values are encrypted with; 0: with none.
func (v *Values) Primary() uint32 {
	if !v.encrypt {
		return 0
	}
	return v.ring.present().primary
}

// split returns what follows the magic; no rest where there is no magic.
func split(stored []byte) (kind byte, rest []byte) {
	after, ok := bytes.CutPrefix(stored, magic)
	switch {
	case !ok:
		return 0, nil
	case len(after) == 0: // cut off
		return kindEncrypted, []byte{}
	}
	return after[0], after[1:]
}

// keyOf returns the id of the key that something was encrypted with, or false if it is
// no ciphertext.
func keyOf(kind byte, ciphertext []byte) (id uint32, ok bool) {
	if kind != kindEncrypted || len(ciphertext) < tinkPrefix || ciphertext[0] != tinkStart {
		return 0, false
	}
	return binary.BigEndian.Uint32(ciphertext[1:tinkPrefix]), true
}
