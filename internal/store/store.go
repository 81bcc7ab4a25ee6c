package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/store/embedded"
	"github.com/fanoutd/fanoutd/internal/store/epochs"
)

// Store is a connection to an external etcd, or an etcd in this process. Its methods
// may be called from any goroutine.
type Store struct {
	client   *clientv3.Client
	log      *slog.Logger
	epochs   *epochs.Tracker
	versions *memberVersions // nil: embedded etcd

	kv        pb.KVClient // sends the transactions of commits
	kvOptions []grpc.CallOption
	ranges    rangeStream    // reads of whole resources
	watches   pb.WatchClient // nil: embedded etcd

	leases *leaseCollector
	grants pb.LeaseClient // grants leases with given ids

	// maxTransactionOps is the number of operations of a transaction that etcd accepts.
	maxTransactionOps int

	// maxRequestBytes is the size of the largest write that etcd accepts.
	maxRequestBytes int

	commitTimeout time.Duration // how long a commit may take with all its attempts

	calls  calls
	member *embedded.Member // nil: external etcd

	monitoring  sync.WaitGroup     // the goroutines that observe the connection to an external etcd
	stopMonitor context.CancelFunc // ends them; nil: embedded etcd
	unreachable atomic.Bool        // see Unreachable
}

// Collection returns the part of the store below an etcd prefix. The prefix ends in a
// slash. The name appears in logs. Values pass through the cipher on their way to and from
// etcd.
func (s *Store) Collection(name, prefix string, cipher Cipher) *Collection {
	return &Collection{
		store:  s,
		prefix: prefix,
		end:    clientv3.GetPrefixRangeEnd(prefix),
		cipher: cipher,
		log:    s.log.With("resource", name),
		page:   pageSize{maxBytes: pageBytes},
	}
}

// Close closes the connection to etcd. The caller closes all watches first. An embedded etcd is
// stopped, see [embedded.Member.Close].
func (s *Store) Close(ctx context.Context) error {
	if s.stopMonitor != nil {
		s.stopMonitor()
		s.monitoring.Wait()
	}
	s.leases.close()
	if s.member != nil {
		return s.member.Close(ctx)
	}
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("close the etcd client: %w", err)
	}
	return nil
}

// CheckRights returns an error if the store may not write the epoch record. It writes nothing.
func (s *Store) CheckRights(ctx context.Context) error {
	if err := s.epochs.CheckRight(ctx); err != nil {
		return fmt.Errorf("cannot write the key %s in etcd at %v: %w", epochs.Key, s.client.Endpoints(), classify(ctx, err))
	}
	return nil
}
