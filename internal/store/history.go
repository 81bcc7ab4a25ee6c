package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
)

// History is the part of a store that has the history of a collection. Its records pass through the
// same cipher as the objects.
type History struct{ objects, records *Collection }

// KeepHistory makes the collection store the records of its writes, see [object.Op.Recording]. It
// returns the history that they make up. It must be called before the collection is used.
func (c *Collection) KeepHistory() *History {
	prefix := history.Prefix(c.prefix)
	c.records = &Collection{
		store: c.store, prefix: prefix, end: clientv3.GetPrefixRangeEnd(prefix), cipher: c.cipher, log: c.log,
		page: pageSize{maxBytes: pageBytes},
	}
	return &History{objects: c, records: c.records}
}

// addRecords adds the records of the operations to their transaction. It returns the size of the
// transaction, or 0 if there are no records. Seen is a revision of etcd, as new as the server
// knows.
func (c *Collection) addRecords(t *transaction, ops []object.Op, seen int64) (bytes int, err error) {
	if c.records == nil {
		return 0, nil
	}
	request := &t.request
	order := history.NewOrder(seen, rand.Uint64())
	recorded := false
	for i := range ops {
		r := ops[i].Recording
		if r == nil {
			continue
		}
		recorded = true
		from, end := history.NotBefore(ops[i].Key, seen)
		request.Compare = append(request.Compare, c.records.isEmpty(from, end))
		record, err := c.records.putRecord(history.RecordKey(ops[i].Key, order, r.Tail), r.Value)
		if err != nil {
			return 0, err
		}
		entry, err := c.records.putRecord(history.IndexKey(ops[i].Key, order, r.Tail), r.Change)
		if err != nil {
			return 0, err
		}
		request.Success = append(request.Success, putOp(record), putOp(entry))
	}
	if !recorded {
		return 0, nil
	}
	from, end := history.BeyondSlack(seen)
	request.Compare = append(request.Compare, c.records.isEmpty(from, end))
	from, end = history.Latest(seen)
	request.Failure = append(request.Failure, readOp(c.records.rangeRequest(history.Range{From: from, End: end, Limit: 1, KeysOnly: true}, 0)))
	bytes = proto.Size(request)
	if limit := c.store.maxRequestBytes - requestOverhead; bytes > limit {
		return 0, &object.RecordTooLargeError{Bytes: bytes, Limit: limit}
	}
	return bytes, nil
}

// requestOverhead is what etcd adds to a transaction: its number, and the name of the user.
const requestOverhead = 512

// laterThan returns a revision to make an order from that the transaction has refused: the present one,
// or one after the latest order if a server with a wrong revision has made that.
func (c *Collection) laterThan(resp *pb.TxnResponse) int64 {
	seen := resp.GetHeader().GetRevision()
	latest := resp.Responses[len(resp.Responses)-1].GetResponseRange()
	for _, kv := range latest.GetKvs() {
		if name, ok := history.ParseIndexKey(object.Key(kv.Key[len(c.records.prefix):])); ok {
			seen = max(seen, name.Order.Seen()+1)
		}
	}
	return seen
}

func (c *Collection) putRecord(key object.Key, value []byte) (*pb.PutRequest, error) {
	etcdKey := c.prefix + string(key)
	stored, err := c.cipher.Seal(etcdKey, value)
	return &pb.PutRequest{Key: []byte(etcdKey), Value: stored}, err
}

// isEmpty returns the comparison that a range of keys is empty.
func (c *Collection) isEmpty(from, end object.Key) *pb.Compare {
	return &pb.Compare{
		Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 0},
		Key: []byte(c.prefix + string(from)), RangeEnd: []byte(c.prefix + string(end)),
	}
}

func (c *Collection) rangeRequest(r history.Range, at object.Revision) *pb.RangeRequest {
	request := &pb.RangeRequest{Key: []byte(c.prefix + string(r.From)), Revision: int64(at), Limit: int64(r.Limit), KeysOnly: r.KeysOnly}
	if r.End != "" {
		request.RangeEnd = []byte(c.prefix + string(r.End))
	}
	return request
}

// readBatch is the number of reads in one transaction. etcd accepts 128 by default.
const readBatch = 100

// Read implements [history.Store].
func (h *History) Read(ctx context.Context, at object.Revision, ranges []history.Range) (found [][]object.Record, now object.Revision, err error) {
	reads := make([]*pb.RequestOp, len(ranges))
	for i, r := range ranges {
		reads[i] = readOp(h.records.rangeRequest(r, at))
	}
	responses, now, err := h.read(ctx, at, reads)
	if err != nil {
		return nil, 0, fmt.Errorf("read the history: %w", err)
	}
	found = make([][]object.Record, len(ranges))
	for i, response := range responses {
		for _, kv := range response.GetKvs() {
			r := object.Record{CreateRevision: object.Revision(kv.CreateRevision), ModRevision: object.Revision(kv.ModRevision)}
			if r.Key = object.Key(kv.Key[len(h.records.prefix):]); !ranges[i].KeysOnly {
				r = h.records.record(r.Key, kv)
			}
			found[i] = append(found[i], r)
		}
	}
	return found, now, nil
}

// Epoch implements [history.Store]. It asks etcd after each reconnect, because etcd may have been restored then.
func (h *History) Epoch(ctx context.Context) (object.Epoch, error) {
	if err := h.records.verifyConnection(ctx); err != nil {
		return "", fmt.Errorf("look for a restore of etcd: %w", err)
	}
	if epoch, seen := h.records.store.epochs.Current(); epoch != "" && !seen.HasEnded() {
		return epoch, nil
	}
	return h.records.Epoch(ctx)
}

// Present implements [history.Store].
func (h *History) Present(ctx context.Context, at object.Revision, keys []object.Key) ([]*object.Record, error) {
	reads := make([]*pb.RequestOp, len(keys))
	for i, key := range keys {
		reads[i] = readLease([]byte(h.objects.prefix+string(key)), int64(at))
	}
	responses, _, err := h.read(ctx, at, reads)
	if err != nil {
		return nil, fmt.Errorf("read the present objects: %w", err)
	}
	found := make([]*object.Record, len(keys))
	for i, response := range responses {
		for _, kv := range response.GetKvs() {
			found[i] = &object.Record{
				Key: keys[i], CreateRevision: object.Revision(kv.CreateRevision), ModRevision: object.Revision(kv.ModRevision), Lease: kv.Lease,
			}
		}
	}
	return found, nil
}

// read does reads at a revision, which they have. If they have none, the first of them decide it.
func (h *History) read(ctx context.Context, at object.Revision, reads []*pb.RequestOp) (responses []*pb.RangeResponse, now object.Revision, err error) {
	err = h.records.inOneHistory(ctx, func() error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		for rest := reads; len(rest) > 0; {
			batch := rest[:min(len(rest), readBatch)]
			rest = rest[len(batch):]
			for _, r := range batch {
				r.GetRequestRange().Revision = int64(at)
			}
			resp, err := h.records.store.txn(call, &pb.TxnRequest{Success: batch})
			err = classify(ctx, err)
			h.records.store.calls.count(opList, err)
			if err != nil {
				return err
			}
			if at == 0 {
				at = object.Revision(resp.GetHeader().GetRevision())
			}
			for _, r := range resp.Responses {
				responses = append(responses, r.GetResponseRange())
			}
		}
		return nil
	})
	return responses, at, err
}

// Names implements [history.Store].
func (h *History) Names(ctx context.Context) iter.Seq2[[]object.Record, error] {
	c := h.records
	first, end := history.AllRecords()
	request := c.rangeRequest(history.Range{From: first, End: end, KeysOnly: true}, 0)
	names := func(kvs []*mvccpb.KeyValue) []object.Record {
		records := make([]object.Record, len(kvs))
		for i, kv := range kvs {
			records[i] = object.Record{Key: object.Key(kv.Key[len(c.prefix):]), CreateRevision: object.Revision(kv.CreateRevision)}
		}
		return records
	}
	return func(yield func([]object.Record, error) bool) {
		from, stopped := c.prefix+string(first), false
		err := c.store.ranges(ctx, request, func(kvs []*mvccpb.KeyValue) error {
			if len(kvs) == 0 {
				return nil
			}
			if stopped = !yield(names(kvs), nil); stopped {
				return errStopped
			}
			from = string(kvs[len(kvs)-1].Key) + "\x00"
			return nil
		})
		if stopped || err == nil {
			return
		}
		// As in [Collection.Scan], the rest is read in pages.
		for more := true; more; {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			resp, err := c.store.client.Get(call, from, clientv3.WithRange(c.prefix+string(end)), clientv3.WithLimit(scanPage), clientv3.WithKeysOnly())
			err = classify(ctx, err)
			cancel()
			if err != nil {
				yield(nil, fmt.Errorf("read the names of the history: %w", err))
				return
			}
			if len(resp.Kvs) == 0 || !yield(names(resp.Kvs), nil) {
				return
			}
			more = resp.More
			from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
		}
	}
}

// Remove implements [history.Store].
func (h *History) Remove(ctx context.Context, keys []object.Key) error {
	for rest := keys; len(rest) > 0; {
		batch := rest[:min(len(rest), readBatch)]
		rest = rest[len(batch):]
		request := &pb.TxnRequest{}
		for _, key := range batch {
			request.Success = append(request.Success, deleteOp(&pb.DeleteRangeRequest{Key: []byte(h.records.prefix + string(key))}))
		}
		if err := h.write(ctx, request); err != nil {
			return fmt.Errorf("remove records of the history: %w", err)
		}
	}
	return nil
}

// Replace implements [history.Store].
func (h *History) Replace(ctx context.Context, key object.Key, value []byte, modRevision object.Revision) (bool, error) {
	put, err := h.records.putRecord(key, value)
	if err != nil {
		return false, err
	}
	request := &pb.TxnRequest{Compare: []*pb.Compare{hasModRevision(put.Key, modRevision)}, Success: []*pb.RequestOp{putOp(put)}}
	err = h.write(ctx, request)
	if errors.Is(err, errNotApplied) {
		return false, nil
	}
	return err == nil, err
}

// errNotApplied means that a comparison of a transaction did not hold.
var errNotApplied = errors.New("etcd has not applied the transaction")

// write sends a transaction that writes.
func (h *History) write(ctx context.Context, request *pb.TxnRequest) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	seen := h.records.store.epochs.History()
	resp, err := h.records.store.txn(call, request)
	if err != nil {
		return classifyWrite(ctx, err, false)
	}
	seen.Advance(object.Revision(resp.GetHeader().GetRevision()))
	if !resp.Succeeded {
		return errNotApplied
	}
	return nil
}

// Rewrite is [Collection.Rewrite] for the records of the history.
func (h *History) Rewrite(ctx context.Context, start object.Key, limit, batch int) (object.RewriteResult, error) {
	return h.records.Rewrite(ctx, start, limit, batch)
}

// MaxWriteBytes implements [history.Store].
func (h *History) MaxWriteBytes() int { return h.records.store.maxRequestBytes }

// Prefix returns the etcd prefix of the history.
func (h *History) Prefix() string { return h.records.prefix }

// CheckRight returns an error if the store may not read and write the history. It writes nothing, as
// [epochs.Tracker.CheckRight].
func (h *History) CheckRight(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	prefix := h.records.prefix
	_, err := h.records.store.client.Txn(call).
		If(clientv3.Compare(clientv3.CreateRevision(prefix), "<", 0)).
		Then(clientv3.OpPut(prefix, ""), clientv3.OpDelete(prefix+"\x00", clientv3.WithRange(h.records.end))).
		Else(clientv3.OpGet(prefix, clientv3.WithRange(h.records.end), clientv3.WithLimit(1), clientv3.WithKeysOnly())).
		Commit()
	if err = classify(ctx, err); err != nil {
		return fmt.Errorf("cannot write below the prefix %s in etcd, where the history is: %w", prefix, err)
	}
	return nil
}

// recordRewrite returns what a transaction needs to record that it stores objects again, so that their
// new mod revisions are no gaps in the history. Only objects whose writes are in the history are
// recorded.
func (c *Collection) recordRewrite(ctx context.Context, kvs []*mvccpb.KeyValue) (compares []clientv3.Cmp, puts []clientv3.Op, err error) {
	h := &History{objects: c, records: c.records}
	ranges := make([]history.Range, len(kvs))
	for i, kv := range kvs {
		from, end := history.RecordsOf(object.Key(kv.Key[len(c.prefix):]))
		ranges[i] = history.Range{From: from, End: end, Limit: 1, KeysOnly: true}
	}
	seen := c.orders.after(c.store.epochs.History())
	from, end := history.Latest(seen)
	newest, now, err := h.Read(ctx, 0, append(ranges, history.Range{From: from, End: end, Limit: 1, KeysOnly: true}))
	if err != nil {
		return nil, nil, err
	}
	seen = max(seen, int64(now))
	for _, entry := range newest[len(kvs)] {
		if name, ok := history.ParseIndexKey(entry.Key); ok {
			seen = max(seen, name.Order.Seen()+1) // from before etcd was restored
		}
	}
	empty := func(from, end object.Key) {
		prefix := c.records.prefix
		compares = append(compares, clientv3.Compare(clientv3.CreateRevision(prefix+string(from)).WithRange(prefix+string(end)), "=", 0))
	}
	order := history.NewOrder(seen, rand.Uint64())
	for i, kv := range kvs {
		if len(newest[i]) == 0 || int64(newest[i][0].CreateRevision) != kv.ModRevision {
			continue
		}
		name, ok := history.ParseRecordKey(newest[i][0].Key)
		if !ok || name.Kind == history.Transient { // the chain ends there on purpose
			continue
		}
		for key, value := range history.Reencryption(name, order, kv.ModRevision) {
			put, err := c.records.putRecord(key, value)
			if err != nil {
				return nil, nil, err
			}
			puts = append(puts, clientv3.OpPut(string(put.Key), string(put.Value)))
		}
		empty(history.NotBefore(name.Key, seen))
	}
	if len(puts) > 0 {
		empty(history.BeyondSlack(seen))
	}
	return compares, puts, nil
}
