package store

import (
	"context"

	"github.com/fanoutd/fanoutd/internal/object"
)

// StopMonitor ends the goroutine that verifies the epoch after reconnects.
func (s *Store) StopMonitor() {
	s.stopMonitor()
	s.monitoring.Wait()
}

// AssumeVersion makes the store assume this version of etcd.
func (s *Store) AssumeVersion(version string) {
	s.versions = &memberVersions{log: s.log, fetch: func(context.Context) []string { return []string{version} }}
}

// KnownEpoch returns the last known epoch, which may be empty.
func (c *Collection) KnownEpoch() object.Epoch {
	epoch, _ := c.store.epochs.current()
	return epoch
}
