package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Commit applies the operations at one revision if all their preconditions hold,
// and none of them otherwise.
//
// Errors: [*object.ConflictError] if a precondition does not hold, [*object.StaleError] if only
// an [object.Op.Seen] is outdated, [object.ErrNoSpace], [object.ErrTooLarge],
// [*object.RecordTooLargeError], [*object.TooManyOperationsError], [object.ErrContended], and
// [object.ErrUnavailable] if the outcome may be unknown. Commit does not retry an attempt whose outcome is
// unknown. It takes at most callTimeout.
func (c *Collection) Commit(ctx context.Context, ops []object.Op) (object.Commit, error) {
	// An embedded etcd might commit before it checks the context.
	if err := ctx.Err(); err != nil {
		return object.Commit{}, err
	}
	stored, err := c.seal(ops)
	if err != nil {
		return object.Commit{}, err
	}
	if puts, bytes, writes := written(ops, stored); writes {
		if err := c.store.admit(puts, bytes); err != nil {
			c.store.calls.count(opCommit, err)
			return object.Commit{}, err
		}
	}
	call, cancel := context.WithTimeout(ctx, c.store.commitTimeout)
	defer cancel()
	leases, err := c.grantAll(call, ops)
	if err != nil {
		known := isOutcome(err)
		if err = classify(ctx, err); known && errors.Is(err, object.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", object.ErrNotApplied, err) // whatever has become of the lease
		}
		return object.Commit{}, fmt.Errorf("grant a lease: %w", err)
	}
	h := c.store.epochs.History()
	txn, resp, err := c.send(call, ops, stored, leases)
	err = classifyWrite(ctx, err, slices.ContainsFunc(ops, returnsValue))
	c.store.calls.count(opCommit, err)
	if err != nil {
		if slices.ContainsFunc(leases, isOwnLease) {
			// The transaction may have been applied, now or later. The sweep revokes the
			// leases if they still have no keys then.
			c.store.leases.sweepSoon()
		}
		return object.Commit{}, fmt.Errorf("commit: %w", err)
	}
	if !resp.Succeeded {
		c.store.leases.add(call, distinct(leases))
		if conflict := c.conflict(ops, resp); conflict != nil {
			return object.Commit{}, conflict
		}
		return object.Commit{}, errors.New("etcd rejected the transaction although every precondition holds")
	}
	commit := object.Commit{
		Revision: object.Revision(resp.Header.GetRevision()),
		Deleted:  make([]bool, len(ops)), Leases: make([]int64, len(ops)), Records: make([]*object.Record, len(ops)),
	}
	h.Advance(commit.Revision)
	for i, op := range ops {
		commit.Leases[i] = int64(leases[i])
		if op.Kind != object.OpDelete {
			continue
		}
		deleted := resp.Responses[txn.write[i]].GetResponseDeleteRange()
		commit.Deleted[i] = deleted.GetDeleted() > 0
		for _, kv := range deleted.GetPrevKvs() {
			commit.Records[i] = new(c.record(op.Key, kv))
		}
	}
	c.store.leases.add(call, c.replacedLeases(call, txn, resp))
	return commit, nil
}

// maxOrders is how often a write with records is sent. Only other servers that know a much later
// revision, or write the same key at the same time, can cause another attempt. From the third one on, the
// order is ahead of etcd's revision, twice as far each time: by at most [history.Slack] << maxAhead.
const (
	maxOrders = 16
	maxAhead  = 8
)

// send sends the transaction of a commit. It sends it again only if etcd has not applied it although all
// preconditions hold: the transaction depends on leases that were read before, and one of them has
// changed, or its records would not be in order.
func (c *Collection) send(ctx context.Context, ops []object.Op, stored [][]byte, leases []clientv3.LeaseID) (*transaction, *pb.TxnResponse, error) {
	epoch := c.store.epochs.History()
	seen := c.orders.after(epoch)
	for attempt := 1; ; attempt++ {
		kept, err := c.keptLeases(ctx, ops)
		if err != nil {
			return nil, nil, fmt.Errorf("read the leases to keep: %w", err)
		}
		txn := c.transaction(ops, stored, leases, kept)
		recorded, err := c.addRecords(txn, ops, seen)
		if err != nil {
			return nil, nil, err
		}
		resp, err := c.store.txn(ctx, &txn.request)
		if recorded > 0 && err == nil && resp.Succeeded {
			c.orders.note(epoch, seen, resp.GetHeader().GetRevision())
		}
		switch {
		case recorded > 0 && errors.Is(err, rpctypes.ErrTooManyOps):
			return nil, nil, &object.TooManyOperationsError{Needed: max(len(txn.request.Success), len(txn.request.Compare))}
		case err != nil || resp.Succeeded || len(kept) == 0 && recorded == 0 || c.conflict(ops, resp) != nil:
			return txn, resp, err
		case recorded == 0:
		case attempt == maxOrders:
			return nil, nil, object.ErrContended
		default:
			seen = c.laterThan(resp)
			if attempt > 1 {
				// In the time of a round trip, the others come further than the slack.
				seen += history.Slack << min(attempt-2, maxAhead)
			}
		}
	}
}

// txn sends a transaction.
func (s *Store) txn(ctx context.Context, request *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := s.kv.Txn(ctx, request, s.kvOptions...)
	return resp, clientv3.ContextError(ctx, err)
}

// returnsValue reports whether the answer to an operation may have a value.
func returnsValue(op object.Op) bool { return op.ReturnDeleted || op.ReturnCurrent }

// written returns the number of puts among the operations and their records, with the size of their
// keys and values, and whether any operation writes.
func written(ops []object.Op, stored [][]byte) (puts int, bytes int64, writes bool) {
	for i, op := range ops {
		if op.Kind == object.OpPut {
			puts++
			bytes += int64(len(op.Key) + len(stored[i]))
		}
		if r := op.Recording; r != nil {
			puts += 2
			bytes += int64(len(r.Change) + len(r.Value) + 2*(len(op.Key)+len(r.Tail)))
		}
		writes = writes || op.Kind != object.OpCheck
	}
	return puts, bytes, writes
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

// conflict returns the error for the first operation whose precondition does not hold, or the
// error for outdated operations, or nil if the comparisons hold.
func (c *Collection) conflict(ops []object.Op, resp *pb.TxnResponse) error {
	var found *object.ConflictError
	stale := false
	at := object.Revision(resp.Header.GetRevision())
	current, seen := make([]*object.Record, len(ops)), make([]object.Revision, len(ops))
	next := 0
	for i, op := range ops {
		if _, exact := op.Required(); !exact {
			continue
		}
		have := object.Revision(0)
		if kvs := resp.Responses[next].GetResponseRange().GetKvs(); len(kvs) > 0 {
			have = object.Revision(kvs[0].ModRevision)
			if op.ReturnCurrent && op.If != nil {
				current[i] = new(c.record(op.Key, kvs[0]))
			}
		}
		seen[i] = have
		if op.If != nil && have != *op.If && found == nil {
			found = &object.ConflictError{Current: current, Key: op.Key, Want: *op.If, Have: have, At: at}
		}
		stale = stale || op.Seen != nil && have != op.Seen.ModRevision
		next++
	}
	switch {
	case found != nil:
		return found
	case stale:
		return &object.StaleError{Have: seen, At: at}
	}
	return nil
}

// maxGrants is how many leases a write grants at the same time.
const maxGrants = 16

// grantAll grants a lease for each different time to live of the puts: a lease costs etcd
// as much as a write. The result has one entry per operation; 0 means no lease.
func (c *Collection) grantAll(ctx context.Context, ops []object.Op) ([]clientv3.LeaseID, error) {
	leases := make([]clientv3.LeaseID, len(ops))
	bySeconds := map[int64]*clientv3.LeaseID{}
	for _, op := range ops {
		if op.TTL > 0 {
			bySeconds[leaseSeconds(op.TTL)] = new(clientv3.NoLease)
		}
	}
	if len(bySeconds) == 0 {
		return leases, nil
	}
	granting, grantCtx := errgroup.WithContext(ctx)
	granting.SetLimit(maxGrants)
	for seconds, lease := range bySeconds {
		granting.Go(func() (err error) {
			*lease, err = c.grant(grantCtx, seconds)
			return err
		})
	}
	err := granting.Wait()
	for i, op := range ops {
		if op.TTL > 0 {
			leases[i] = *bySeconds[leaseSeconds(op.TTL)]
		}
	}
	if err != nil {
		c.store.leases.add(ctx, distinct(leases))
		return nil, err
	}
	return leases, nil
}

// distinct returns the leases, each once.
func distinct(leases []clientv3.LeaseID) []clientv3.LeaseID {
	if len(leases) == 0 {
		return nil
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(leases)))
	return slices.DeleteFunc(sorted, func(id clientv3.LeaseID) bool { return id == clientv3.NoLease })
}
