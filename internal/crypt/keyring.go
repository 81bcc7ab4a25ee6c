package crypt

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Keyring is the keys in use, which may be exchanged at any time. All its methods may
// be called from any goroutine.
type Keyring struct {
	log *slog.Logger

	mu      sync.Mutex
	keys    *keys         // guarded by mu; never nil
	changed chan struct{} // guarded by mu: closed with the next change of keys
}

// keys are those of one keyset. They are frozen.
type keys struct {
	aead    tink.AEAD // nil: there are no keys
	primary uint32
	ids     []uint32 // of the keys that are enabled, sorted
}

func (k *keys) has(id uint32) bool {
	_, found := slices.BinarySearch(k.ids, id)
	return found
}

// NewKeyring returns one without keys.
func NewKeyring(log *slog.Logger) *Keyring {
	return &Keyring{log: log, keys: &keys{}, changed: make(chan struct{})}
}

// Use takes the keys of a keyset, in the JSON form of Tink and in clear text, in place
// of those it had. Where it returns an error it keeps those.
func (r *Keyring) Use(keyset []byte) error {
	fresh, err := parse(keyset)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.keys
	r.keys = fresh
	close(r.changed)
	r.changed = make(chan struct{})
	// Values that are under a key that is gone cannot be read any more. Whether there are
	// any, nobody knows.
	gone := slices.DeleteFunc(slices.Clone(old.ids), fresh.has)
	level := slog.LevelInfo
	if len(gone) > 0 {
		level = slog.LevelWarn
	}
	r.log.Log(context.Background(), level, "the keys of values are in use", "primary", fresh.primary, "keys", fresh.ids, "gone", gone)
	return nil
}

// parse reads a keyset.
func parse(content []byte) (*keys, error) {
	handle, err := read(content)
	if err != nil {
		return nil, err
	}
	fresh := &keys{}
	info := handle.KeysetInfo()
	for _, k := range described(info) {
		if k.Status != enabled {
			continue
		}
		// Who has encrypted a value is known by the prefix alone.
		if !k.prefixed {
			return nil, fmt.Errorf("key %d of the keyset does not put its id before what it encrypts (output prefix TINK)", k.ID)
		}
		fresh.ids = append(fresh.ids, k.ID)
	}
	slices.Sort(fresh.ids)
	fresh.primary = info.GetPrimaryKeyId()
	if fresh.aead, err = aead.New(handle); err != nil {
		return nil, errors.New("the keyset has keys that are not for AEAD")
	}
	return fresh, nil
}

// present returns the keys in use.
func (r *Keyring) present() *keys {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys
}

// Has reports whether the key of an id is there.
func (r *Keyring) Has(id uint32) bool { return r.present().has(id) }

// Changed returns a channel that is closed when the keys change next.
func (r *Keyring) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Name identifies the keys that are there: it is the same wherever the same are.
func (r *Keyring) Fingerprint() string {
	hash := fnv.New32a()
	fmt.Fprint(hash, r.present().ids)
	return fmt.Sprintf("%08x", hash.Sum32())
}
