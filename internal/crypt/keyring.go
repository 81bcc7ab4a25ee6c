package crypt

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Keyring holds the keys in use. Its methods may be called from any goroutine.
type Keyring struct {
	log     *slog.Logger
	current atomic.Pointer[keys] // never nil
}

// keys contains the keys of one keyset. It is immutable.
type keys struct {
	aead     tink.AEAD // nil: no keys
	primary  uint32
	ids      []uint32      // ids of the enabled keys, sorted
	replaced chan struct{} // closed when other keys are in use
}

func (k *keys) has(id uint32) bool {
	_, found := slices.BinarySearch(k.ids, id)
	return found
}

// NewKeyring returns a keyring without keys.
func NewKeyring(log *slog.Logger) *Keyring {
	r := &Keyring{log: log}
	r.current.Store(&keys{replaced: make(chan struct{})})
	return r
}

// Use replaces the keys with those of a keyset in Tink's unencrypted JSON form. After an
// error it keeps the old keys.
func (r *Keyring) Use(keyset []byte) error {
	fresh, err := parse(keyset)
	if err != nil {
		return err
	}
	old := r.current.Swap(fresh)
	close(old.replaced)
	// Values encrypted with a removed key cannot be decrypted anymore. Warn, because there
	// may be such values.
	removed := slices.DeleteFunc(slices.Clone(old.ids), fresh.has)
	level := slog.LevelInfo
	if len(removed) > 0 {
		level = slog.LevelWarn
	}
	r.log.Log(context.Background(), level, "encryption keys loaded", "primary", fresh.primary, "keys", fresh.ids, "removed", removed)
	return nil
}

// parse parses a keyset.
func parse(content []byte) (*keys, error) {
	handle, err := read(content)
	if err != nil {
		return nil, err
	}
	fresh := &keys{replaced: make(chan struct{})}
	info := handle.KeysetInfo()
	for _, k := range described(info) {
		if k.Status != enabled {
			continue
		}
		// The prefix is the only way to find the key of a ciphertext.
		if !k.prefixed {
			return nil, fmt.Errorf("key %d of the keyset does not prefix ciphertexts with its id (output prefix TINK)", k.ID)
		}
		fresh.ids = append(fresh.ids, k.ID)
	}
	slices.Sort(fresh.ids)
	fresh.primary = info.GetPrimaryKeyId()
	if fresh.aead, err = aead.New(handle); err != nil {
		return nil, errors.New("the keyset contains keys that are not for AEAD")
	}
	return fresh, nil
}

// Has reports whether the keyring has the key with an id.
func (r *Keyring) Has(id uint32) bool { return r.current.Load().has(id) }

// Changed returns a channel that is closed at the next change of keys.
func (r *Keyring) Changed() <-chan struct{} { return r.current.Load().replaced }

// Fingerprint identifies the set of keys. Equal sets have equal fingerprints.
func (r *Keyring) Fingerprint() string {
	hash := fnv.New32a()
	fmt.Fprint(hash, r.current.Load().ids)
	return fmt.Sprintf("%08x", hash.Sum32())
}
