package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// revokeTimeout bounds the attempt to revoke an unused lease. A lease that is not
// revoked expires.
const revokeTimeout = 5 * time.Second

// Commit applies the operations at one revision if all their preconditions hold,
// and none of them otherwise.
//
// Errors: [*object.ConflictError] if a precondition does not hold, [object.ErrNoSpace],
// [object.ErrTooLarge], and [object.ErrUnavailable] if the outcome may be unknown.
// Commit does not retry.
func (c *Collection) Commit(ctx context.Context, ops []object.Op) (object.Commit, error) {
	// An embedded etcd might commit before it checks the context.
	if err := ctx.Err(); err != nil {
		return object.Commit{}, err
	}
	stored, err := c.seal(ops)
	if err != nil {
		return object.Commit{}, err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	leases, err := c.grant(call, ops)
	if err != nil {
		return object.Commit{}, fmt.Errorf("grant a lease: %w", classify(ctx, err))
	}
	var compares []clientv3.Cmp
	var writes, reads []clientv3.Op
	for i, op := range ops {
		key := c.prefix + string(op.Key)
		if op.If != nil {
			compares = append(compares, clientv3.Compare(clientv3.ModRevision(key), "=", int64(*op.If)))
			if op.ReturnCurrent {
				reads = append(reads, clientv3.OpGet(key))
			} else {
				reads = append(reads, clientv3.OpGet(key, clientv3.WithKeysOnly()))
			}
		}
		switch op.Kind {
		case object.OpPut:
			writes = append(writes, putOp(key, string(stored[i]), &op, leases[i]))
		case object.OpDelete:
			if op.ReturnDeleted {
				writes = append(writes, clientv3.OpDelete(key, clientv3.WithPrevKV()))
			} else {
				writes = append(writes, clientv3.OpDelete(key))
			}
		case object.OpCheck:
		}
	}
	h := c.store.epochs.currentHistory()
	resp, err := c.store.client.Txn(call).If(compares...).Then(writes...).Else(reads...).Commit()
	err = classify(ctx, err)
	c.store.calls.count(OpCommit, err)
	if err != nil {
		// Keep the leases: the transaction may have been applied.
		return object.Commit{}, fmt.Errorf("commit: %w", err)
	}
	if !resp.Succeeded {
		c.revoke(ctx, leases)
		return object.Commit{}, c.conflict(ops, resp)
	}
	commit := object.Commit{
		Revision: object.Revision(resp.Header.GetRevision()), Deleted: make([]bool, len(ops)), Records: make([]*object.Record, len(ops)),
	}
	h.advance(commit.Revision)
	next := 0
	for i, op := range ops {
		if op.Kind == object.OpCheck {
			continue
		}
		if deleted := resp.Responses[next].GetResponseDeleteRange(); deleted != nil {
			commit.Deleted[i] = deleted.GetDeleted() > 0
			for _, kv := range deleted.GetPrevKvs() {
				commit.Records[i] = new(c.record(op.Key, kv))
			}
		}
		next++
	}
	return commit, nil
}

// putOp returns the etcd operation of a put.
//
// etcd rejects a transaction that keeps the lease of a missing key. So a put that keeps the
// time to live, and does not require the key to exist, checks whether it does.
func putOp(key, value string, op *object.Op, lease clientv3.LeaseID) clientv3.Op {
	put := clientv3.OpPut(key, value, clientv3.WithLease(lease))
	if !op.KeepTTL || op.If != nil && *op.If == 0 {
		return put
	}
	keep := clientv3.OpPut(key, value, clientv3.WithIgnoreLease())
	if op.If != nil {
		return keep
	}
	exists := clientv3.Compare(clientv3.CreateRevision(key), ">", 0)
	return clientv3.OpTxn([]clientv3.Cmp{exists}, []clientv3.Op{keep}, []clientv3.Op{put})
}

// RemainingTTL returns the time until the lease removes its keys: whole seconds, rounded
// down, and 0 if the lease has expired.
func (c *Collection) RemainingTTL(ctx context.Context, lease int64) (time.Duration, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.store.client.TimeToLive(call, clientv3.LeaseID(lease))
	if err != nil {
		return 0, classify(ctx, err)
	}
	return max(0, time.Duration(resp.TTL)*time.Second), nil
}

// conflict returns the error for the first operation whose precondition does not hold.
func (c *Collection) conflict(ops []object.Op, resp *clientv3.TxnResponse) error {
	var found *object.ConflictError
	current := make([]*object.Record, len(ops))
	next := 0
	for i, op := range ops {
		if op.If == nil {
			continue
		}
		have := object.Revision(0)
		if kvs := resp.Responses[next].GetResponseRange().GetKvs(); len(kvs) > 0 {
			have = object.Revision(kvs[0].ModRevision)
			if op.ReturnCurrent {
				current[i] = new(c.record(op.Key, kvs[0]))
			}
		}
		if have != *op.If && found == nil {
			found = &object.ConflictError{Current: current, Key: op.Key, Want: *op.If, Have: have, At: object.Revision(resp.Header.GetRevision())}
		}
		next++
	}
	if found != nil {
		return found
	}
	return errors.New("etcd rejected the transaction although every precondition holds")
}

// grant creates a lease for each put with a time to live. The result has one entry per
// operation; 0 means no lease.
func (c *Collection) grant(ctx context.Context, ops []object.Op) ([]clientv3.LeaseID, error) {
	leases := make([]clientv3.LeaseID, len(ops))
	for i, op := range ops {
		if op.TTL <= 0 {
			continue
		}
		seconds := int64((op.TTL + time.Second - 1) / time.Second)
		resp, err := c.store.client.Grant(ctx, seconds)
		if err != nil {
			c.revoke(ctx, leases)
			return nil, err
		}
		leases[i] = resp.ID
	}
	return leases, nil
}

// revoke revokes unused leases, even if ctx is done.
func (c *Collection) revoke(ctx context.Context, leases []clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	for _, id := range leases {
		if id == clientv3.NoLease {
			continue
		}
		if _, err := c.store.client.Revoke(ctx, id); err != nil {
			c.log.Debug("could not revoke an unused lease, it will expire", "error", err)
		}
	}
}
