package store

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// transaction is the etcd transaction of a commit.
type transaction struct {
	// Success has the writes. Failure has the reads that say why a comparison does not hold.
	request pb.TxnRequest

	// For each operation of the commit: the index of its write in Success, or -1.
	write []int

	// A write may take a key from its lease. If the server knows the object that it replaces, the
	// lease is in replaced. Otherwise the transaction reads the key, without its value, right
	// before the write. If there is no room for the reads, the keys are in unread, and the leases
	// are read afterwards.
	replaced   []clientv3.LeaseID
	leaseReads []int // indexes in Success: the reads, and deletes that return the record
	unread     [][]byte
}

// transaction returns the transaction of a commit. Stored and leases have one entry per
// operation. Kept is the result of [Collection.keptLeases].
func (c *Collection) transaction(ops []object.Op, stored [][]byte, leases []clientv3.LeaseID, kept map[int]clientv3.LeaseID) *transaction {
	t := &transaction{write: make([]int, len(ops))}
	request := &t.request
	readLeases := c.hasRoomForReads(ops)
	for i := range ops {
		op := &ops[i]
		key := []byte(c.prefix + string(op.Key))
		if required, ok := op.Required(); ok {
			if op.Seen != nil && op.Seen.ModRevision != required {
				required = object.Unseen // both cannot hold: the transaction only reads
			}
			request.Compare = append(request.Compare, hasModRevision(key, required))
			request.Failure = append(request.Failure, readOp(&pb.RangeRequest{Key: key, KeysOnly: !op.ReturnCurrent}))
		}
		if op.Kind == object.OpCheck {
			t.write[i] = -1
			continue
		}
		if mayReplaceLease(op) {
			switch {
			case op.Seen != nil: // if the comparison holds, the key has this lease
				t.replaced = append(t.replaced, clientv3.LeaseID(op.Seen.Lease))
			case op.ReturnDeleted: // the write returns the lease
				t.leaseReads = append(t.leaseReads, len(request.Success))
			case readLeases:
				t.leaseReads = append(t.leaseReads, len(request.Success))
				request.Success = append(request.Success, readLease(key, 0))
			default:
				t.unread = append(t.unread, key)
			}
		}
		t.write[i] = len(request.Success)
		lease, keeps := kept[i]
		switch {
		case keeps:
			request.Compare = append(request.Compare, hasLease(key, lease))
			request.Success = append(request.Success, putOp(&pb.PutRequest{Key: key, Value: stored[i], Lease: int64(lease)}))
		case op.Kind == object.OpPut:
			request.Success = append(request.Success, putWithLease(op, &pb.PutRequest{Key: key, Value: stored[i], Lease: int64(leases[i])}))
		default:
			request.Success = append(request.Success, deleteOp(&pb.DeleteRangeRequest{Key: key, PrevKv: op.ReturnDeleted}))
		}
	}
	return t
}

// hasRoomForReads reports whether etcd accepts a transaction that has a read for each of
// the operations. It always accepts two operations.
func (c *Collection) hasRoomForReads(ops []object.Op) bool {
	return len(ops) == 1 || 2*len(ops) < c.store.maxTransactionOps
}

// mayReplaceLease reports whether an operation may take a key from its lease.
func mayReplaceLease(op *object.Op) bool {
	required, ok := op.Required()
	mayExist := !ok || required != 0
	return mayExist && (op.Kind == object.OpDelete || op.Kind == object.OpPut && !op.KeepTTL)
}

// replacedLeases returns the own leases that an applied transaction took keys from.
func (c *Collection) replacedLeases(ctx context.Context, t *transaction, resp *pb.TxnResponse) []clientv3.LeaseID {
	leases := slices.DeleteFunc(t.replaced, func(id clientv3.LeaseID) bool { return !isOwnLease(id) })
	for _, i := range t.leaseReads {
		kvs := resp.Responses[i].GetResponseRange().GetKvs()
		if kvs == nil {
			kvs = resp.Responses[i].GetResponseDeleteRange().GetPrevKvs()
		}
		leases = append(leases, ownLeases(kvs)...)
	}
	if len(t.unread) > 0 {
		reads := make([]*pb.RequestOp, len(t.unread))
		for i, key := range t.unread {
			reads[i] = readLease(key, resp.GetHeader().GetRevision()-1)
		}
		before, err := c.store.txn(ctx, &pb.TxnRequest{Success: reads})
		if err != nil {
			c.store.leases.failed("could not read the leases of replaced keys", err)
			return distinct(leases)
		}
		for _, r := range before.Responses {
			leases = append(leases, ownLeases(r.GetResponseRange().GetKvs())...)
		}
	}
	return distinct(leases)
}

// putWithLease returns the etcd operation of a put, given the request with the new lease.
//
// etcd rejects a transaction that keeps the lease of a missing key. So a put that keeps the
// time to live, and does not require the key to exist, checks whether it does. The nested
// transaction counts as another operation. If there is no room for it, see keptLeases.
func putWithLease(op *object.Op, put *pb.PutRequest) *pb.RequestOp {
	required, exact := op.Required()
	if !op.KeepTTL || exact && required == 0 {
		return putOp(put)
	}
	keep := putOp(&pb.PutRequest{Key: put.Key, Value: put.Value, IgnoreLease: true})
	if exact {
		return keep
	}
	return nestedOp(&pb.TxnRequest{
		Compare: []*pb.Compare{exists(put.Key)}, Success: []*pb.RequestOp{keep}, Failure: []*pb.RequestOp{putOp(put)},
	})
}

// keptLeases reads the leases of the keys whose puts keep them, by the index of the put, if the
// transaction has no room for the nested transactions of [putWithLease]. Otherwise it returns nil.
func (c *Collection) keptLeases(ctx context.Context, ops []object.Op) (map[int]clientv3.LeaseID, error) {
	if len(ops) < c.store.maxTransactionOps {
		return nil, nil
	}
	var puts []int
	var reads []*pb.RequestOp
	for i, op := range ops {
		if _, exact := op.Required(); op.Kind == object.OpPut && op.KeepTTL && !exact {
			puts = append(puts, i)
			reads = append(reads, readLease([]byte(c.prefix+string(op.Key)), 0))
		}
	}
	if len(puts) == 0 {
		return nil, nil
	}
	resp, err := c.store.txn(ctx, &pb.TxnRequest{Success: reads})
	if err != nil {
		return nil, err
	}
	kept := make(map[int]clientv3.LeaseID, len(puts))
	for n, i := range puts {
		kept[i] = clientv3.NoLease
		for _, kv := range resp.Responses[n].GetResponseRange().GetKvs() {
			kept[i] = clientv3.LeaseID(kv.Lease)
		}
	}
	return kept, nil
}
