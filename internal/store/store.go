package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Store is a connection to an external etcd, or an etcd in this process. Its methods
// may be called from any goroutine.
type Store struct {
	client   *clientv3.Client
	log      *slog.Logger
	epochs   *epochTracker
	versions *memberVersions // nil: embedded etcd

	watches pb.WatchClient

	leases *leaseCollector
	grants pb.LeaseClient // grants leases with given ids

	// maxTransactionOps is the number of operations of a transaction that etcd accepts.
	maxTransactionOps int

	calls  calls
	member *member    // nil: external etcd
	failed chan error // receives the error after which an embedded etcd cannot go on

	monitoring  sync.WaitGroup     // the goroutines that observe the connection to an external etcd
	stopMonitor context.CancelFunc // ends them; nil: embedded etcd
	unreachable atomic.Bool        // see Unreachable

	stop func(context.Context) error // stops an embedded etcd; nil: external etcd
}

// Collection returns the part of the store below an etcd prefix. The prefix ends in a
// slash. The name appears in logs.
func (s *Store) Collection(name, prefix string) *Collection {
	return s.Encrypted(name, prefix, plain{})
}

// Encrypted is like [Store.Collection], with values that pass through a cipher on
// their way to and from etcd.
func (s *Store) Encrypted(name, prefix string, cipher Cipher) *Collection {
	return &Collection{
		store:  s,
		prefix: prefix,
		end:    clientv3.GetPrefixRangeEnd(prefix),
		cipher: cipher,
		log:    s.log.With("resource", name),
		page:   pageSize{maxBytes: listBytes},
	}
}

// Failed returns a channel that receives an error if an embedded etcd cannot go on. Requests
// then wait until their contexts end. The caller closes the store.
func (s *Store) Failed() <-chan error { return s.failed }

// admit allows a write to an embedded etcd of so many bytes, or fails with
// [object.ErrNoSpace]. A write that only deletes has 0 bytes.
func (s *Store) admit(bytes int64) error {
	if s.member == nil {
		return nil
	}
	return s.member.disk.admit(bytes)
}

// Close closes the connection to etcd. The caller closes all streams first.
//
// An embedded etcd is stopped. Watches of its own clients end at once; their other
// requests may finish until ctx is done. Close returns only after etcd has released
// its files, even if ctx is done earlier.
func (s *Store) Close(ctx context.Context) error {
	if s.stopMonitor != nil {
		s.stopMonitor()
		s.monitoring.Wait()
	}
	s.leases.close()
	var errs []error
	if err := s.client.Close(); err != nil && !errors.Is(err, errClientClosed) {
		errs = append(errs, fmt.Errorf("close the etcd client: %w", err))
	}
	if s.stop != nil {
		errs = append(errs, s.stop(ctx))
	}
	return errors.Join(errs...)
}
