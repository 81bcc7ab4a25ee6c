package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leaseTag is the upper half of the id of every lease that fanoutd grants. It identifies
// the leases that fanoutd may revoke.
//
// An id that etcd chooses itself has the time in bits 8 to 47, in milliseconds modulo
// 2^40. The tag stands for a time in October 2054, so until then etcd does not choose
// such an id.
const leaseTag = 0x66616e6f // "fano"

// newLeaseID returns a random id with the tag.
func newLeaseID() clientv3.LeaseID { return clientv3.LeaseID(leaseTag<<32 | int64(rand.Uint32())) }

// isOwnLease reports whether fanoutd granted the lease. The process that granted it may
// have been another one.
func isOwnLease(id clientv3.LeaseID) bool { return id>>32 == leaseTag }

// grantAttempts is how many ids are tried for one lease. Even with a million leases, an
// id is taken with a probability of 1 in 4,000.
const grantAttempts = 5

// leaseSeconds returns the time to live of the lease of an object.
func leaseSeconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }

// grant grants a lease for keys of one write. They expire together, but may be replaced one by
// one: a lease is revoked only when it has no key left.
func (c *Collection) grant(ctx context.Context, seconds int64) (clientv3.LeaseID, error) {
	for attempt := 1; ; attempt++ {
		id := newLeaseID()
		_, err := c.store.grants.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: seconds})
		if err = clientv3.ContextError(ctx, err); err == nil {
			return id, nil
		}
		// The lease may exist: an attempt without an answer may have granted it.
		c.store.leases.sweepSoon()
		if !errors.Is(err, rpctypes.ErrLeaseExist) || attempt == grantAttempts {
			return clientv3.NoLease, err
		}
	}
}

// ownLeases returns the leases of records that fanoutd has granted.
func ownLeases(kvs []*mvccpb.KeyValue) []clientv3.LeaseID {
	var own []clientv3.LeaseID
	for _, kv := range kvs {
		if id := clientv3.LeaseID(kv.Lease); isOwnLease(id) {
			own = append(own, id)
		}
	}
	return own
}
