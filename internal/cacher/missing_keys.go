package cacher

import (
	"context"
	"maps"
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// MissingKeys are the keys that values are encrypted with and that the server does not
// have. All methods are safe for concurrent use.
//
// A server that lacks a key shows other contents than a server that has it. From the
// first such value on, its positions therefore have an epoch of their own ([MissingKeys.Epoch]).
// A client that continues with such a position at another server starts over there, and
// gets the value. When the key arrives, the resource is read again, in the common epoch.
type MissingKeys struct {
	available Keys // nil: nothing is encrypted

	mu          sync.Mutex
	ids         map[uint32]bool // guarded by mu; at most maxMissingKeys
	fingerprint string          // guarded by mu: available.Fingerprint() when ids was last updated
}

// maxMissingKeys limits the memory that a client with write access to etcd can occupy.
const maxMissingKeys = 1000

// NewMissingKeys returns an empty set. Available may be nil.
func NewMissingKeys(available Keys) *MissingKeys { return &MissingKeys{available: available} }

// Note adds the key of a record that could not be decrypted without it. It reports
// whether this was such a record.
func (m *MissingKeys) Note(r *object.Record) bool {
	if m.available == nil || r.Undecryptable == nil || !r.Undecryptable.Missing {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ids) == 0 {
		m.ids, m.fingerprint = map[uint32]bool{}, m.available.Fingerprint()
	}
	if len(m.ids) < maxMissingKeys {
		m.ids[r.Undecryptable.KeyID] = true
	}
	return true
}

// Arrived reports whether one of the keys is available now.
func (m *MissingKeys) Arrived() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.ids {
		if m.available.Has(id) {
			return true
		}
	}
	return false
}

// RemoveArrived removes the keys that are available now. It reports whether there were
// any.
func (m *MissingKeys) RemoveArrived() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.ids)
	maps.DeleteFunc(m.ids, func(id uint32, _ bool) bool { return m.available.Has(id) })
	if len(m.ids) == before {
		return false
	}
	m.fingerprint = m.available.Fingerprint()
	return true
}

// Any reports whether a key is missing.
func (m *MissingKeys) Any() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ids) > 0
}

// Epoch returns the epoch that readers see, for an epoch of the store: another one while keys are
// missing. Servers with the same keys serve the same contents under the same epoch.
func (m *MissingKeys) Epoch(ofStore object.Epoch) object.Epoch {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ids) == 0 {
		return ofStore
	}
	return ofStore + "~" + object.Epoch(m.fingerprint)
}

// watchKeys returns errKeyArrived when a missing key has arrived, and nil when ctx is
// done.
func (c *Cacher) watchKeys(ctx context.Context) error {
	if c.cfg.Keys == nil {
		<-ctx.Done()
		return nil
	}
	for {
		changed := c.cfg.Keys.Changed()
		if c.missingKeys.Arrived() {
			return errKeyArrived
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// checkKeys examines records before they are applied. It returns an error if the state
// with them would belong to another epoch.
func (c *Cacher) checkKeys(records []object.Record) error {
	missing := false
	for i := range records {
		missing = c.missingKeys.Note(&records[i]) || missing
	}
	switch {
	case !missing:
		return nil
	case !c.lacksKeys:
		return errKeyMissing
	case c.missingKeys.Arrived():
		// watchKeys may have checked just before the key was added to the set.
		return errKeyArrived
	}
	return nil
}

// keysChanged reports whether the resource must be read again, because a missing key has
// arrived or because the state turned out to lack one.
func (c *Cacher) keysChanged() bool {
	arrived := c.missingKeys.RemoveArrived()
	return c.lacksKeys && arrived || c.lacksKeys != c.missingKeys.Any()
}
