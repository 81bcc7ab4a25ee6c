package store

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

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

// Saw makes the store assume that etcd has had a revision.
func (s *Store) Saw(r object.Revision) { s.epochs.History().Advance(r) }

// Highest returns the highest revision that etcd was seen to have.
func (s *Store) Highest() object.Revision { return object.Revision(s.epochs.History().Highest()) }

// SetCommitTimeout changes how long a commit may take.
func (s *Store) SetCommitTimeout(d time.Duration) { s.commitTimeout = d }

// BeforeWrites makes the store call a function before it sends a transaction that may write.
func (s *Store) BeforeWrites(f func()) {
	s.kv = &observedKV{s.kv, f, func(*pb.TxnResponse) {}}
}

// AfterWrites makes the store call a function with the answer to each transaction that may write.
func (s *Store) AfterWrites(f func(*pb.TxnResponse)) { s.kv = &observedKV{s.kv, func() {}, f} }

type observedKV struct {
	pb.KVClient
	before func()
	after  func(*pb.TxnResponse)
}

func (kv *observedKV) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if len(in.GetCompare()) == 0 {
		return kv.KVClient.Txn(ctx, in, opts...)
	}
	kv.before()
	resp, err := kv.KVClient.Txn(ctx, in, opts...)
	kv.after(resp)
	return resp, err
}

// Outdated returns a collection that would store all values differently now.
func (s *Store) Outdated(name, prefix string) *Collection {
	return s.Collection(name, prefix, outdated{})
}

type outdated struct{ plain }

func (outdated) IsCurrent([]byte) bool { return false }
