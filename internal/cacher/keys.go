package cacher

import (
	"context"
	"errors"
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Keys are what the store decrypts values with. All methods may be called from any
// goroutine.
type Keys interface {
	// Has reports whether the key of an id is there.
	Has(id uint32) bool

	// Changed returns a channel that is closed when the keys change next.
	Changed() <-chan struct{}

	// Fingerprint identifies the set of keys: equal sets have equal fingerprints.
	Fingerprint() string
}

// What a server shows that lacks a key is not what others show. So its positions are
// of an epoch of their own, from the first value on that it cannot decrypt for want of
// a key: who goes on at another server with one of them begins anew there, and gets
// the value. When the key has come, the state is read anew, and is of the epoch that
// everybody has.

// errLocked says that a value is under a key that is not there, errUnlocked that such
// a key has come.
var (
	errLocked   = errors.New("a value is encrypted with a key that this server does not have")
	errUnlocked = errors.New("a key has come that values were waiting for")
)

// Missing is the keys that values are encrypted with and that are not there. All its
// methods may be called from any goroutine. The zero value is of a store that decrypts
// nothing.
type Missing struct {
	keys Keys

	mu   sync.Mutex
	ids  map[uint32]bool // guarded by mu; bounded by maxMissing
	mark string          // guarded by mu: the name of the keys that there were when that was last found out
}

// NewMissing returns one that knows of none yet. Keys may be nil.
func NewMissing(keys Keys) *Missing { return &Missing{keys: keys} }

// maxMissing bounds what anybody can make the server remember who writes to etcd.
const maxMissing = 1000

// Note notes the key of a record that could not be decrypted for want of it, and reports
// whether it is such a record.
func (m *Missing) Note(r *object.Record) bool {
	if m.keys == nil || r.Undecryptable == nil || !r.Undecryptable.Missing {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ids) == 0 {
		m.ids, m.mark = map[uint32]bool{}, m.keys.Fingerprint()
	}
	if len(m.ids) < maxMissing {
		m.ids[r.Undecryptable.KeyID] = true
	}
	return true
}

// Come reports whether one of them has come.
func (m *Missing) Come() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.ids {
		if m.keys.Has(id) {
			return true
		}
	}
	return false
}

// Forget forgets those that have come, and reports whether there were any.
func (m *Missing) Forget() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.ids)
	for id := range m.ids {
		if m.keys.Has(id) {
			delete(m.ids, id)
		}
	}
	if len(m.ids) == before {
		return false
	}
	m.mark = m.keys.Fingerprint()
	return true
}

// Any reports whether there are any.
func (m *Missing) Any() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ids) > 0
}

// Mark returns the epoch of what is shown without them in an epoch of the store. It is
// the same on all servers with the same keys, as what they show is.
func (m *Missing) Mark(epoch object.Epoch) object.Epoch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return epoch + "~" + object.Epoch(m.mark)
}

// awaitKeys waits until ctx is done, or a key has come that was missing.
func (c *Cacher) awaitKeys(ctx context.Context) error {
	if c.cfg.Keys == nil {
		<-ctx.Done()
		return nil
	}
	for {
		changed := c.cfg.Keys.Changed()
		if c.missing.Come() {
			return errUnlocked
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// unlock looks at what is about to be applied, and returns an error where it makes the
// state another one than its epoch says.
func (c *Cacher) unlock(records []object.Record) error {
	locked := false
	for i := range records {
		locked = c.missing.Note(&records[i]) || locked
	}
	switch {
	case !locked:
		return nil
	case !c.locked:
		return errLocked
	// awaitKeys may have looked just before.
	case c.missing.Come():
		return errUnlocked
	}
	return nil
}

// relocked reports whether the state is to be read anew, because keys have come or
// because it lacks one.
func (c *Cacher) relocked() bool {
	came := c.missing.Forget()
	return c.locked && came || c.locked != c.missing.Any()
}
