package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// StopMonitor ends the goroutine that verifies the epoch after reconnects.
func (s *Store) StopMonitor() {
	s.stopMonitor()
	s.monitoring.Wait()
}

// Plain returns a collection whose values are stored as they are.
func (s *Store) Plain(name, prefix string) *Collection { return s.Collection(name, prefix, plain{}) }

type plain struct{}

func (plain) Seal(_ string, value []byte) ([]byte, error) { return value, nil }

func (plain) Open(_ string, stored []byte) ([]byte, *object.UndecryptableError) { return stored, nil }

func (plain) IsCurrent([]byte) bool { return true }

// AssumeVersion makes the store assume this version of etcd.
func (s *Store) AssumeVersion(version string) {
	s.versions = &memberVersions{log: s.log, known: func(context.Context) []string { return []string{version} }}
}

// NewLeaseID returns the id of a lease that the store would grant.
func NewLeaseID() clientv3.LeaseID { return newLeaseID() }

// SweepLeases looks for leases without a key, and revokes them without a grace time.
func (s *Store) SweepLeases(ctx context.Context) error { return s.leases.sweep(ctx, 0) }

// DisableLeaseQueue makes writes revoke the leases that they replace before they return.
func (s *Store) DisableLeaseQueue() {
	s.leases.close()
	s.leases = newLeaseCollector(s.client, s.log)
	s.leases.queue = nil
}

// KnownEpoch returns the last known epoch, which may be empty.
func (c *Collection) KnownEpoch() object.Epoch {
	epoch, _ := c.store.epochs.Current()
	return epoch
}
