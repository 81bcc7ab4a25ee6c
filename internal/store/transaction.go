package store

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// transaction is the etcd transaction of a commit.
type transaction struct {
	compares []clientv3.Cmp
	writes   []clientv3.Op // if all comparisons hold
	reads    []clientv3.Op // otherwise

	// For each operation of the commit: the index of its write in writes, or -1.
	write []int

	// A write may take a key from its lease. If the server knows the object that it replaces, the
	// lease is in replaced. Otherwise the transaction reads the key, without its value, right
	// before the write. If there is no room for the reads, the keys are in unread, and the leases
	// are read afterwards.
	replaced   []clientv3.LeaseID
	leaseReads []int // indexes in writes: the reads, and deletes that return the record
	unread     []string
}

// transaction returns the transaction of a commit. Stored and leases have one entry per
// operation. Kept is the result of [Collection.keptLeases].
func (c *Collection) transaction(ops []object.Op, stored [][]byte, leases []clientv3.LeaseID, kept map[int]clientv3.LeaseID) *transaction {
	t := &transaction{write: make([]int, len(ops))}
	readLeases := c.hasRoomForReads(ops)
	for i := range ops {
		op := &ops[i]
		key := c.prefix + string(op.Key)
		if required, ok := op.Required(); ok {
			if op.Seen != nil && op.Seen.ModRevision != required {
				required = object.Unseen // both cannot hold: the transaction only reads
			}
			t.compares = append(t.compares, clientv3.Compare(clientv3.ModRevision(key), "=", int64(required)))
			if op.ReturnCurrent {
				t.reads = append(t.reads, clientv3.OpGet(key))
			} else {
				t.reads = append(t.reads, clientv3.OpGet(key, clientv3.WithKeysOnly()))
			}
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
				t.leaseReads = append(t.leaseReads, len(t.writes))
			case readLeases:
				t.leaseReads = append(t.leaseReads, len(t.writes))
				t.writes = append(t.writes, readLease(key))
			default:
				t.unread = append(t.unread, key)
			}
		}
		t.write[i] = len(t.writes)
		lease, keeps := kept[i]
		switch {
		case keeps:
			t.compares = append(t.compares, clientv3.Compare(clientv3.LeaseValue(key), "=", lease))
			t.writes = append(t.writes, clientv3.OpPut(key, string(stored[i]), clientv3.WithLease(lease)))
		case op.Kind == object.OpPut:
			t.writes = append(t.writes, putOp(key, string(stored[i]), op, leases[i]))
		case op.ReturnDeleted:
			t.writes = append(t.writes, clientv3.OpDelete(key, clientv3.WithPrevKV()))
		default:
			t.writes = append(t.writes, clientv3.OpDelete(key))
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
func (c *Collection) replacedLeases(ctx context.Context, t *transaction, resp *clientv3.TxnResponse) []clientv3.LeaseID {
	leases := slices.DeleteFunc(t.replaced, func(id clientv3.LeaseID) bool { return !isOwnLease(id) })
	for _, i := range t.leaseReads {
		kvs := resp.Responses[i].GetResponseRange().GetKvs()
		if kvs == nil {
			kvs = resp.Responses[i].GetResponseDeleteRange().GetPrevKvs()
		}
		leases = append(leases, ownLeases(kvs)...)
	}
	if len(t.unread) > 0 {
		reads := make([]clientv3.Op, len(t.unread))
		for i, key := range t.unread {
			reads[i] = readLease(key, clientv3.WithRev(resp.Header.GetRevision()-1))
		}
		before, err := c.store.client.Txn(ctx).Then(reads...).Commit()
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

// putOp returns the etcd operation of a put.
//
// etcd rejects a transaction that keeps the lease of a missing key. So a put that keeps the
// time to live, and does not require the key to exist, checks whether it does. The nested
// transaction counts as another operation. If there is no room for it, see keptLeases.
func putOp(key, value string, op *object.Op, lease clientv3.LeaseID) clientv3.Op {
	put := clientv3.OpPut(key, value, clientv3.WithLease(lease))
	required, exact := op.Required()
	if !op.KeepTTL || exact && required == 0 {
		return put
	}
	keep := clientv3.OpPut(key, value, clientv3.WithIgnoreLease())
	if exact {
		return keep
	}
	exists := clientv3.Compare(clientv3.CreateRevision(key), ">", 0)
	return clientv3.OpTxn([]clientv3.Cmp{exists}, []clientv3.Op{keep}, []clientv3.Op{put})
}

// keptLeases reads the leases of the keys whose puts keep them, by the index of the put, if the
// transaction has no room for the nested transactions of [putOp]. Otherwise it returns nil.
func (c *Collection) keptLeases(ctx context.Context, ops []object.Op) (map[int]clientv3.LeaseID, error) {
	if len(ops) < c.store.maxTransactionOps {
		return nil, nil
	}
	var puts []int
	var reads []clientv3.Op
	for i, op := range ops {
		if _, exact := op.Required(); op.Kind == object.OpPut && op.KeepTTL && !exact {
			puts = append(puts, i)
			reads = append(reads, readLease(c.prefix+string(op.Key)))
		}
	}
	if len(puts) == 0 {
		return nil, nil
	}
	resp, err := c.store.client.Txn(ctx).Then(reads...).Commit()
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
