package store

import (
	"context"

	"github.com/fanoutd/fanoutd/internal/object"
)

// StopGuard ends the goroutine that looks at the epoch by itself.
func (s *Store) StopGuard() {
	s.stopGuard()
	s.guarding.Wait()
}

// AssumeVersion makes the store believe that etcd has this version.
func (s *Store) AssumeVersion(version string) {
	s.versions = &versions{log: s.log, ask: func(context.Context) []string { return []string{version} }}
}

// KnownEpoch returns the epoch as far as it was ever asked for.
func (c *Collection) KnownEpoch() object.Epoch {
	epoch, _ := c.store.epochs.now()
	return epoch
}
