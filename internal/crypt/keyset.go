package crypt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
)

// The functions in this file convert the content of a keyset file. They do not access
// files.

// Key is the public information about a key.
type Key struct {
	ID      uint32
	Type    string // for example XAesGcmKey
	Status  string // for example enabled
	Primary bool   // encrypts new values; all enabled keys decrypt

	prefixed bool // ciphertexts start with the key id
}

// enabled is the status of a usable key.
const enabled = "enabled"

// Create returns a keyset with one key, and the id of the key.
func Create() (content []byte, id uint32, err error) {
	m := keyset.NewManager()
	if id, err = m.Add(aead.XAES256GCM192BitNonceKeyTemplate()); err == nil {
		err = m.SetPrimary(id)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("create a keyset: %w", err)
	}
	content, err = write(m)
	return content, id, err
}

// Add returns the keyset with a new key, which is not primary, and the id of the key.
func Add(content []byte) (_ []byte, id uint32, err error) {
	m, err := manager(content)
	if err != nil {
		return nil, 0, err
	}
	if id, err = m.Add(aead.XAES256GCM192BitNonceKeyTemplate()); err != nil {
		return nil, 0, fmt.Errorf("add a key: %w", err)
	}
	content, err = write(m)
	return content, id, err
}

// Promote returns the keyset with another primary key, and the id of that key. The id 0
// selects the last key of the keyset.
func Promote(content []byte, id uint32) ([]byte, uint32, error) {
	m, err := manager(content)
	if err != nil {
		return nil, 0, err
	}
	if id == 0 {
		all, err := Keys(content)
		if err != nil {
			return nil, 0, err
		}
		id = all[len(all)-1].ID
	}
	if err := m.SetPrimary(id); err != nil {
		return nil, 0, fmt.Errorf("make key %d the primary one: %w", id, err)
	}
	content, err = write(m)
	return content, id, err
}

// Remove returns the keyset without a key. The primary key cannot be removed.
func Remove(content []byte, id uint32) ([]byte, error) {
	m, err := manager(content)
	if err != nil {
		return nil, err
	}
	if err := m.Delete(id); err != nil {
		return nil, fmt.Errorf("remove key %d: %w", id, err)
	}
	return write(m)
}

// Keys returns the keys of a keyset in file order, oldest first.
func Keys(content []byte) ([]Key, error) {
	handle, err := read(content)
	if err != nil {
		return nil, err
	}
	return described(handle.KeysetInfo()), nil
}

func described(info *tinkpb.KeysetInfo) []Key {
	var all []Key
	for _, k := range info.GetKeyInfo() {
		all = append(all, Key{
			ID:       k.GetKeyId(),
			Type:     k.GetTypeUrl()[strings.LastIndexByte(k.GetTypeUrl(), '.')+1:],
			Status:   strings.ToLower(k.GetStatus().String()),
			Primary:  k.GetKeyId() == info.GetPrimaryKeyId(),
			prefixed: k.GetOutputPrefixType() == tinkpb.OutputPrefixType_TINK,
		})
	}
	return all
}

// read parses a keyset. It drops Tink's error because that may quote key material.
func read(content []byte) (*keyset.Handle, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(content)))
	if err != nil {
		return nil, errors.New("not an unencrypted Tink keyset in JSON")
	}
	return handle, nil
}

func manager(content []byte) (*keyset.Manager, error) {
	handle, err := read(content)
	if err != nil {
		return nil, err
	}
	return keyset.NewManagerFromHandle(handle), nil
}

func write(m *keyset.Manager) ([]byte, error) {
	handle, err := m.Handle()
	if err != nil {
		return nil, fmt.Errorf("assemble the keyset: %w", err)
	}
	var out, pretty bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&out)); err != nil {
		return nil, fmt.Errorf("write the keyset: %w", err)
	}
	if err := json.Indent(&pretty, out.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("write the keyset: %w", err)
	}
	pretty.WriteByte('\n')
	return pretty.Bytes(), nil
}
