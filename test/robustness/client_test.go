package robustness

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"golang.org/x/time/rate"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// callTimeout is the deadline of every call. It is shorter than the timeout of
// fanoutd's own requests to etcd, so that clients give up on writes in progress.
const callTimeout = 5 * time.Second

// client reads and writes, one call after another, and records each call as the
// equivalent request to etcd. Each call goes to a random server.
type client struct {
	name      string
	base      time.Time // start of the recording; all times are relative to it
	rng       *rand.Rand
	replicas  []*replica
	ids       identity.Provider
	ledger    *ledger
	pace      *rate.Limiter // calls while nothing fails
	retryPace *rate.Limiter // calls after a failed one; not shared with other clients

	history *model.AppendableHistory
	states  []state          // results of reads that need not be the newest
	known   map[string]int64 // last known mod revisions; 0: absent
	newest  int64            // the newest revision that it has seen
}

// run makes calls until enough is done. All clients have the same pace, so they call
// in waves, all at once. Otherwise their calls would hardly ever overlap.
func (c *client) run(ctx, enough context.Context) error {
	for c.pace.WaitN(enough, c.pace.Burst()) == nil {
		for range c.pace.Burst() {
			// A call that is given up may still have an effect.
			call, cancel := context.WithTimeout(ctx, callTimeout)
			err := c.call(call)
			cancel()
			c.ledger.add(err == nil)
			if err != nil && !unknown(err) {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if err != nil && c.retryPace.Wait(enough) != nil || enough.Err() != nil {
				return nil
			}
		}
	}
	return nil
}

func (c *client) now() time.Duration { return time.Since(c.base) }

// replica returns a random server.
func (c *client) replica() *replica { return c.replicas[c.rng.IntN(len(c.replicas))] }

func (c *client) key() string { return keys[c.rng.IntN(len(keys))] }

// call makes a random call.
func (c *client) call(ctx context.Context) error {
	switch n := c.rng.IntN(100); {
	case n < 20:
		return c.get(ctx, c.key(), nil)
	case n < 45:
		return c.list(ctx, c.span(), nil)
	case n < 50:
		return c.read(ctx)
	case n < 70:
		return c.write(ctx, c.put(c.key()))
	case n < 76:
		return c.write(ctx, c.delete(c.key()))
	default:
		return c.write(ctx, c.transaction()...)
	}
}

// span returns a random part of the resource.
func (c *client) span() span {
	switch c.rng.IntN(8) {
	case 0:
		return exactly(c.key())
	case 1:
		return selected(c.key())
	case 2:
		return startingAt(c.key())
	case 3, 4:
		return whole()
	}
	return below(paths[c.rng.IntN(len(paths))])
}

// read makes a read that need not see the newest writes. Its answer is correct if it
// was the state at the revision of the answer.
func (c *client) read(ctx context.Context) error {
	var consistency fanoutv1.ReadConsistency
	switch c.rng.IntN(3) {
	case 0:
		consistency.Level = &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}
	case 1:
		consistency.Level = &fanoutv1.ReadConsistency_MinRevision{MinRevision: c.newest}
	default:
		consistency.Level = &fanoutv1.ReadConsistency_ExactRevision{ExactRevision: max(1, c.newest-c.rng.Int64N(400))}
	}
	if c.rng.IntN(2) == 0 {
		return c.get(ctx, c.key(), &consistency)
	}
	return c.list(ctx, c.span(), &consistency)
}

// get reads one object.
func (c *client) get(ctx context.Context, key string, consistency *fanoutv1.ReadConsistency) error {
	start := c.now()
	resp, err := c.replica().fanout.Get(ctx, &fanoutv1.GetRequest{Resource: resource, Key: key, Consistency: consistency})
	end := c.now()
	result := state{span: exactly(key), revision: resp.GetPosition().GetRevision()}
	if err == nil {
		result.objects = []*mvccpb.KeyValue{stored(resp.GetObject())}
	} else if at, ok := refused(err, "KEY_NOT_FOUND"); ok {
		result.revision, err = at, nil
	}
	return c.recordRead(result, consistency, start, end, err)
}

// list lists the objects of a span, in one page or several.
func (c *client) list(ctx context.Context, span span, consistency *fanoutv1.ReadConsistency) error {
	req := &fanoutv1.ListRequest{
		Resource: resource, Scope: span.scope, FieldSelector: span.fieldSelector, StartKey: span.startKey, Consistency: consistency,
	}
	if c.rng.IntN(4) == 0 {
		req.PageSize = int32(1 + c.rng.IntN(3))
	}
	result := state{span: span}
	start := c.now()
	end := time.Duration(0)
	for {
		resp, err := c.replica().fanout.List(ctx, req)
		// The first page fixes the revision of all pages. They must not include later
		// writes.
		end = cmp.Or(end, c.now())
		if _, ok := refused(err, "PAGE_TOKEN_EXPIRED"); ok {
			return nil // an incomplete list proves nothing
		}
		if err != nil {
			return c.recordRead(result, consistency, start, end, err)
		}
		at := resp.GetPosition().GetRevision()
		if result.revision != 0 && result.revision != at {
			return fmt.Errorf("got a page at revision %d in a list at revision %d", result.revision, at)
		}
		result.revision = at
		for _, o := range resp.GetObjects() {
			result.objects = append(result.objects, stored(o))
		}
		if resp.GetNextPageToken() == "" {
			return c.recordRead(result, consistency, start, end, nil)
		}
		req.PageToken, req.Consistency = resp.GetNextPageToken(), nil
	}
}

// recordRead records the outcome of a read.
func (c *client) recordRead(result state, consistency *fanoutv1.ReadConsistency, start, end time.Duration, err error) error {
	if _, ok := refused(err, "REVISION_EXPIRED"); ok && consistency.GetExactRevision() > 0 {
		return nil // the revision has been compacted
	}
	if err != nil && !unknown(err) {
		return unexpected("read", err)
	}
	if consistency == nil {
		c.history.AppendRange(result.from, result.to, 0, 0, false, start, end, result.response(), err)
	} else if err == nil {
		c.states = append(c.states, result)
	}
	if err != nil {
		return err
	}
	if least := consistency.GetMinRevision(); result.revision < least {
		return fmt.Errorf("got revision %d from a read, want at least %d", least, result.revision)
	}
	if exact := consistency.GetExactRevision(); exact > 0 && result.revision != exact {
		return fmt.Errorf("got revision %d from a read, want %d", exact, result.revision)
	}
	c.newest = max(c.newest, result.revision)
	for _, o := range result.objects {
		c.known[string(o.Key[len(prefix):])] = o.ModRevision
	}
	return nil
}

// condition returns a precondition that may hold, or nil.
func (c *client) condition(key string) *int64 {
	switch c.rng.IntN(12) {
	case 0:
		return new(int64) // must not exist
	case 1, 2, 3:
		return new(c.known[key])
	}
	return nil
}

// put returns a put of a value that is written only once. If the put gets no answer,
// the value identifies it in etcd's log.
func (c *client) put(key string) *fanoutv1.Operation {
	value := fmt.Appendf(nil, "%d", c.ids.NewRequestID())
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: &fanoutv1.PutOperation{
		Key: key, Value: &fanoutv1.PutOperation_Data{Data: value}, IfModRevision: c.condition(key),
	}}}
}

func (c *client) delete(key string) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Delete{Delete: &fanoutv1.DeleteOperation{
		Key: key, IfModRevision: c.condition(key),
	}}}
}

func (c *client) check(key string) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Check{Check: &fanoutv1.CheckOperation{Key: key, ModRevision: new(c.known[key])}}}
}

// transaction returns operations on distinct keys.
func (c *client) transaction() []*fanoutv1.Operation {
	order := c.rng.Perm(len(keys))
	var ops []*fanoutv1.Operation
	for _, i := range order[:1+c.rng.IntN(5)] {
		key := keys[i]
		switch n := c.rng.IntN(100); {
		case n < 75:
			ops = append(ops, c.put(key))
		case n < 90:
			ops = append(ops, c.delete(key))
		default:
			ops = append(ops, c.check(key))
		}
	}
	return ops
}

// write applies operations. A single operation sometimes uses its own method (Put or
// Delete) instead of Transact.
func (c *client) write(ctx context.Context, ops ...*fanoutv1.Operation) error {
	store := c.replica().store
	alone := len(ops) == 1 && c.rng.IntN(4) > 0
	start := c.now()
	var revision int64
	var err error
	deleted := make([]bool, len(ops))
	switch {
	case alone && ops[0].GetPut() != nil:
		var resp *fanoutv1.PutResponse
		resp, err = store.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: ops[0].GetPut()})
		revision = resp.GetRevision()
	case alone && ops[0].GetDelete() != nil:
		var resp *fanoutv1.DeleteResponse
		resp, err = store.Delete(ctx, &fanoutv1.DeleteRequest{Resource: resource, Delete: ops[0].GetDelete()})
		revision, deleted[0] = resp.GetRevision(), resp.GetDeleted()
	default:
		var resp *fanoutv1.TransactResponse
		resp, err = store.Transact(ctx, &fanoutv1.TransactRequest{Resource: resource, Operations: ops})
		revision = resp.GetRevision()
		if err == nil && len(resp.GetResults()) != len(ops) {
			return fmt.Errorf("got %d results for %d operations", len(resp.GetResults()), len(ops))
		}
		for i, result := range resp.GetResults() {
			deleted[i] = result.GetDeleted()
		}
	}
	end := c.now()
	compares, writes, results := transaction(ops, deleted)
	resp := &clientv3.TxnResponse{Header: header(revision), Succeeded: true, Responses: results}
	if at, ok := refused(err, "PRECONDITION_FAILED"); ok {
		// This error is an answer: at this revision the condition did not hold.
		resp = &clientv3.TxnResponse{Header: header(at)}
		err = nil
	}
	if _, ok := refused(err, "WRITE_CONTENDED"); ok {
		return nil // nothing was written
	}
	if err != nil && !unknown(err) {
		return unexpected("write", err)
	}
	c.history.AppendTxn(compares, writes, nil, start, end, resp, err)
	if err != nil {
		return err
	}
	c.newest = max(c.newest, resp.Header.GetRevision())
	if resp.Succeeded {
		c.wrote(ops, revision)
	}
	return nil
}

// wrote updates the known revisions after the client's own write.
func (c *client) wrote(ops []*fanoutv1.Operation, revision int64) {
	for _, op := range ops {
		if put := op.GetPut(); put != nil {
			c.known[put.GetKey()] = revision
		}
		if remove := op.GetDelete(); remove != nil {
			c.known[remove.GetKey()] = 0
		}
	}
}

// transaction returns the equivalent etcd transaction of operations, and its results
// if it is applied.
func transaction(ops []*fanoutv1.Operation, deleted []bool) (compares []clientv3.Cmp, writes []clientv3.Op, results []*pb.ResponseOp) {
	require := func(key string, revision *int64) {
		if revision != nil {
			compares = append(compares, clientv3.Compare(clientv3.ModRevision(prefix+key), "=", *revision))
		}
	}
	for i, op := range ops {
		switch op := op.GetOperation().(type) {
		case *fanoutv1.Operation_Put:
			require(op.Put.GetKey(), op.Put.IfModRevision)
			writes = append(writes, clientv3.OpPut(prefix+op.Put.GetKey(), string(op.Put.GetData())))
			results = append(results, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}})
		case *fanoutv1.Operation_Delete:
			require(op.Delete.GetKey(), op.Delete.IfModRevision)
			writes = append(writes, clientv3.OpDelete(prefix+op.Delete.GetKey()))
			gone := &pb.DeleteRangeResponse{}
			if deleted[i] {
				gone.Deleted = 1
			}
			results = append(results, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: gone}})
		case *fanoutv1.Operation_Check:
			require(op.Check.GetKey(), op.Check.ModRevision)
		}
	}
	return compares, writes, results
}

func header(revision int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: revision} }
