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

// callTimeout is the deadline of every call. It is shorter than the one that
// fanoutd gives etcd, so that clients give up on writes that are still under way.
const callTimeout = 5 * time.Second

// client reads and writes, one call after another, and records each of them as
// the request to etcd that it stands for. It goes to any of the servers.
type client struct {
	name     string
	base     time.Time // all times of a recording are counted from here
	rng      *rand.Rand
	replicas []*replica
	ids      identity.Provider
	ledger   *ledger
	pace     *rate.Limiter // calls while nothing fails
	setback  *rate.Limiter // its own: calls after one that failed

	history *model.AppendableHistory
	states  []state          // what it was told by reads that need not be the newest
	known   map[string]int64 // mod revisions as it last heard of them; 0: absent
	newest  int64            // the newest revision that it has heard of
}

// run works until enough is done. Clients have the same pace and so make their
// calls in waves, all at once: alone, one would never get in another's way.
func (c *client) run(ctx, enough context.Context) error {
	for c.pace.WaitN(enough, c.pace.Burst()) == nil {
		for range c.pace.Burst() {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			err := c.act(call)
			cancel()
			c.ledger.add(err == nil)
			if err != nil && !unknown(err) {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if err != nil && c.setback.Wait(enough) != nil || enough.Err() != nil {
				return nil
			}
		}
	}
	return nil
}

func (c *client) now() time.Duration { return time.Since(c.base) }

// replica returns any of the servers.
func (c *client) replica() *replica { return c.replicas[c.rng.IntN(len(c.replicas))] }

func (c *client) key() string { return keys[c.rng.IntN(len(keys))] }

// act does one thing at random.
func (c *client) act(ctx context.Context) error {
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

// span returns a part of the resource at random.
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

// read is a read that need not see the newest writes: it is right if what it
// returns was the state at the revision that it says.
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

// get asks for one object.
func (c *client) get(ctx context.Context, key string, consistency *fanoutv1.ReadConsistency) error {
	start := c.now()
	resp, err := c.replica().fanout.Get(ctx, &fanoutv1.GetRequest{Resource: resource, Key: key, Consistency: consistency})
	end := c.now()
	told := state{span: exactly(key), revision: resp.GetPosition().GetRevision()}
	if err == nil {
		told.objects = []*mvccpb.KeyValue{stored(resp.GetObject())}
	} else if at, ok := refused(err, "KEY_NOT_FOUND"); ok {
		told.revision, err = at, nil
	}
	return c.told(told, consistency, start, end, err)
}

// list asks for the objects of a span, at once or in pages.
func (c *client) list(ctx context.Context, span span, consistency *fanoutv1.ReadConsistency) error {
	req := &fanoutv1.ListRequest{
		Resource: resource, Scope: span.scope, FieldSelector: span.fieldSelector, StartKey: span.startKey, Consistency: consistency,
	}
	if c.rng.IntN(4) == 0 {
		req.PageSize = int32(1 + c.rng.IntN(3))
	}
	told := state{span: span}
	start := c.now()
	end := time.Duration(0)
	for {
		resp, err := c.replica().fanout.List(ctx, req)
		// The first page fixes the revision of all: what is written after it must not
		// be seen.
		end = cmp.Or(end, c.now())
		if _, ok := refused(err, "PAGE_TOKEN_EXPIRED"); ok {
			return nil // a list without an end says nothing
		}
		if err != nil {
			return c.told(told, consistency, start, end, err)
		}
		at := resp.GetPosition().GetRevision()
		if told.revision != 0 && told.revision != at {
			return fmt.Errorf("a list at revision %d has a page at revision %d", told.revision, at)
		}
		told.revision = at
		for _, o := range resp.GetObjects() {
			told.objects = append(told.objects, stored(o))
		}
		if resp.GetNextPageToken() == "" {
			return c.told(told, consistency, start, end, nil)
		}
		req.PageToken, req.Consistency = resp.GetNextPageToken(), nil
	}
}

// told records the outcome of a read.
func (c *client) told(told state, consistency *fanoutv1.ReadConsistency, start, end time.Duration, err error) error {
	if _, ok := refused(err, "REVISION_EXPIRED"); ok && consistency.GetExactRevision() > 0 {
		return nil // nobody remembers
	}
	if err != nil && !unknown(err) {
		return unexpected("read", err)
	}
	if consistency == nil {
		c.history.AppendRange(told.from, told.to, 0, 0, false, start, end, told.response(), err)
	} else if err == nil {
		c.states = append(c.states, told)
	}
	if err != nil {
		return err
	}
	if least := consistency.GetMinRevision(); told.revision < least {
		return fmt.Errorf("a read of at least revision %d was answered at %d", least, told.revision)
	}
	if exact := consistency.GetExactRevision(); exact > 0 && told.revision != exact {
		return fmt.Errorf("a read of revision %d was answered at %d", exact, told.revision)
	}
	c.newest = max(c.newest, told.revision)
	for _, o := range told.objects {
		c.known[string(o.Key[len(prefix):])] = o.ModRevision
	}
	return nil
}

// condition returns a precondition that may hold, or none.
func (c *client) condition(key string) *int64 {
	switch c.rng.IntN(12) {
	case 0:
		return new(int64) // must not exist
	case 1, 2, 3:
		return new(c.known[key])
	}
	return nil
}

// put returns the put of a value that nobody else puts: by it the log tells what
// became of a write without an answer.
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

// transaction returns operations on different keys.
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

// write applies operations, a single one sometimes by the method made for it.
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
			return fmt.Errorf("%d results of %d operations", len(resp.GetResults()), len(ops))
		}
		for i, result := range resp.GetResults() {
			deleted[i] = result.GetDeleted()
		}
	}
	end := c.now()
	compares, writes, results := transaction(ops, deleted)
	resp := &clientv3.TxnResponse{Header: header(revision), Succeeded: true, Responses: results}
	if at, ok := refused(err, "PRECONDITION_FAILED"); ok {
		// An answer: at this revision the condition did not hold.
		resp = &clientv3.TxnResponse{Header: header(at)}
		err = nil
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

// wrote remembers what the client has written itself.
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

// transaction returns the parts of the etcd transaction that operations stand for,
// and its results where it is applied.
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
