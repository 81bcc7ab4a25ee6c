package crypt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// magic is the prefix of every value that is not stored unchanged. No JSON document, no
// protobuf message (no field has number 0) and no envelope of the codec "object" starts
// with it.
var magic = []byte("\x00fanoutd")

// The byte after the magic.
const (
	kindPlain     = 0 // an unencrypted value that itself starts with the magic
	kindEncrypted = 1 // Tink's ciphertext
)

// Tink's prefix: one byte, and the key id in big-endian order.
const (
	tinkStart  = 1
	tinkPrefix = 5
)

// Values converts the values of a resource to their stored form and back. With the same
// keys, it can read every stored form, whether or not it encrypts itself. Its methods may be
// called from any goroutine.
type Values struct {
	ring    *Keyring
	encrypt bool
}

// Values returns a cipher that uses the keys of the ring. If encrypt is false, it stores
// values unencrypted.
func (r *Keyring) Values(encrypt bool) *Values { return &Values{r, encrypt} }

// Encrypts reports whether values are encrypted.
func (v *Values) Encrypts() bool { return v.encrypt }

// Seal returns the stored form of a value under an etcd key. The result may share memory
// with the value.
func (v *Values) Seal(etcdKey string, value []byte) ([]byte, error) {
	if !v.encrypt {
		if bytes.HasPrefix(value, magic) {
			return slices.Concat(magic, []byte{kindPlain}, value), nil
		}
		return value, nil
	}
	keys := v.ring.current.Load()
	if keys.aead == nil {
		return nil, errors.New("no encryption keys are loaded")
	}
	ciphertext, err := keys.aead.Encrypt(value, []byte(etcdKey))
	if err != nil {
		return nil, fmt.Errorf("encrypt a value: %w", err)
	}
	return slices.Concat(magic, []byte{kindEncrypted}, ciphertext), nil
}

// Open returns the value of a stored form under an etcd key. The value may share memory
// with stored. The error explains why the value cannot be decrypted.
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
	keys := v.ring.current.Load()
	if !keys.has(id) {
		return nil, &object.UndecryptableError{KeyID: id, Missing: true}
	}
	value, err := keys.aead.Decrypt(rest, []byte(etcdKey))
	if err != nil {
		return nil, &object.UndecryptableError{KeyID: id}
	}
	return value, nil
}

// IsCurrent reports whether stored has the form that Seal would produce now: encrypted with
// the primary key, or unencrypted.
func (v *Values) IsCurrent(stored []byte) bool {
	kind, rest := split(stored)
	if !v.encrypt {
		return rest == nil || kind == kindPlain
	}
	if rest == nil {
		return false
	}
	id, ok := keyOf(kind, rest)
	return ok && id == v.ring.current.Load().primary
}

// Primary returns the id of the key that encrypts new values, or 0 if they are not encrypted.
func (v *Values) Primary() uint32 {
	if !v.encrypt {
		return 0
	}
	return v.ring.current.Load().primary
}

// split returns the kind and the bytes after it. Rest is nil without the magic.
func split(stored []byte) (kind byte, rest []byte) {
	after, ok := bytes.CutPrefix(stored, magic)
	switch {
	case !ok:
		return 0, nil
	case len(after) == 0: // truncated
		return kindEncrypted, []byte{}
	}
	return after[0], after[1:]
}

// keyOf returns the key id of a ciphertext, and false if it is not a ciphertext.
func keyOf(kind byte, ciphertext []byte) (id uint32, ok bool) {
	if kind != kindEncrypted || len(ciphertext) < tinkPrefix || ciphertext[0] != tinkStart {
		return 0, false
	}
	return binary.BigEndian.Uint32(ciphertext[1:tinkPrefix]), true
}
