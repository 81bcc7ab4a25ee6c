package store

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Cipher converts between the value of an object and the bytes stored in etcd. Keys
// are complete etcd keys. The methods may be called from any goroutine.
type Cipher interface {
	// Seal returns the stored form of a value.
	Seal(etcdKey string, value []byte) (stored []byte, err error)

	// Open returns the value of a stored form. The value may share memory with stored.
	Open(etcdKey string, stored []byte) (value []byte, err *object.UndecryptableError)

	// IsCurrent reports whether stored has the form that Seal would produce now.
	IsCurrent(stored []byte) bool
}

// seal returns the stored form of the value of each put. The result has one entry per
// operation.
func (c *Collection) seal(ops []object.Op) ([][]byte, error) {
	stored := make([][]byte, len(ops))
	for i, op := range ops {
		if op.Kind != object.OpPut {
			continue
		}
		var err error
		if stored[i], err = c.cipher.Seal(c.prefix+string(op.Key), op.Value); err != nil {
			return nil, err
		}
	}
	return stored, nil
}

// record converts a key and its value. The value may share memory with the response,
// and thereby with an embedded etcd. It must not be modified.
func (c *Collection) record(key object.Key, kv *mvccpb.KeyValue) object.Record {
	value, undecryptable := c.cipher.Open(string(kv.Key), kv.Value)
	return object.Record{
		Key:            key,
		Value:          value,
		Undecryptable:  undecryptable,
		CreateRevision: object.Revision(kv.CreateRevision),
		ModRevision:    object.Revision(kv.ModRevision),
		Version:        kv.Version,
		Lease:          kv.Lease,
	}
}

// rewriteBytes limits the values in one transaction of a rewrite, unless a single value is larger.
const rewriteBytes = 256 << 10

// Rewrite reads at most limit records with keys from start on. It stores those that the
// cipher would store differently now in their current form, and keeps their leases.
//
// A transaction contains at most batch records. It changes a record only if the record
// is still as it was read, so concurrent writers win. If Rewrite fails, completed
// transactions stay; the caller may repeat the call with the same start.
func (c *Collection) Rewrite(ctx context.Context, start object.Key, limit, batch int) (object.RewriteResult, error) {
	done := object.RewriteResult{More: true, Next: start}
	for done.More && done.Examined < limit {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := c.read(call, c.prefix+string(done.Next), c.end, 0, limit-done.Examined)
		if err != nil && call.Err() != nil {
			err = classify(ctx, call.Err())
		}
		cancel()
		if err != nil {
			return done, fmt.Errorf("read records to rewrite: %w", err)
		}
		if err := c.rewriteOutdated(ctx, resp.Kvs, batch, &done); err != nil {
			return done, err
		}
		for _, kv := range resp.Kvs {
			done.Next = object.Key(kv.Key[len(c.prefix):]) + "\x00"
		}
		done.Examined += len(resp.Kvs)
		done.More, done.Remaining = resp.More, resp.Count-int64(len(resp.Kvs))
	}
	return done, nil
}

// rewriteOutdated rewrites the records that are not in their current form, one batch at
// a time.
func (c *Collection) rewriteOutdated(ctx context.Context, kvs []*mvccpb.KeyValue, batch int, done *object.RewriteResult) error {
	var outdated []*mvccpb.KeyValue
	bytes := 0
	flush := func() error {
		err := c.rewriteBatch(ctx, outdated, done)
		outdated, bytes = nil, 0
		return err
	}
	for _, kv := range kvs {
		// Skip keys that are not objects, such as the progress mark.
		if _, ok := c.key(kv.Key); !ok || c.cipher.IsCurrent(kv.Value) {
			continue
		}
		if len(outdated) == batch || len(outdated) > 0 && bytes+len(kv.Value) > rewriteBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		outdated = append(outdated, kv)
		bytes += len(kv.Value)
	}
	return flush()
}

// rewriteBatch rewrites records in one transaction. If the transaction fails because
// other writers changed some of the records, rewriteBatch tries again with the rest.
// Each attempt excludes at least one record, unless only the history has changed.
func (c *Collection) rewriteBatch(ctx context.Context, outdated []*mvccpb.KeyValue, done *object.RewriteResult) error {
	attempts := maxOrders + len(outdated)
	for ; len(outdated) > 0; attempts-- {
		if attempts == 0 {
			done.Contended += len(outdated)
			return nil
		}
		var compares []clientv3.Cmp
		var puts, reads []clientv3.Op
		var included []*mvccpb.KeyValue
		var bytes int64
		for _, kv := range outdated {
			key := string(kv.Key)
			value, undecryptable := c.cipher.Open(key, kv.Value)
			if undecryptable != nil {
				done.Undecryptable++ // the component that serves the object logs it
				continue
			}
			stored, err := c.cipher.Seal(key, value)
			if err != nil {
				return err
			}
			included = append(included, kv)
			bytes += int64(len(key) + len(stored))
			compares = append(compares, clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision))
			puts = append(puts, clientv3.OpPut(key, string(stored), clientv3.WithIgnoreLease()))
			reads = append(reads, clientv3.OpGet(key))
		}
		if len(included) == 0 {
			return nil
		}
		if c.records != nil {
			inOrder, records, err := c.recordRewrite(ctx, included)
			if err != nil {
				return fmt.Errorf("record that records are rewritten: %w", err)
			}
			compares, puts = append(compares, inOrder...), append(puts, records...)
		}
		if err := c.store.admit(len(puts), bytes); err != nil {
			return fmt.Errorf("rewrite records: %w", err)
		}
		h := c.store.epochs.History()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := c.store.client.Txn(call).If(compares...).Then(puts...).Else(reads...).Commit()
		cancel()
		if err != nil {
			return fmt.Errorf("rewrite records: %w", classifyWrite(ctx, err, false))
		}
		h.Advance(object.Revision(resp.Header.GetRevision()))
		if resp.Succeeded {
			done.Rewritten += len(included)
			return nil
		}
		outdated = nil
		for i, kv := range included {
			now := resp.Responses[i].GetResponseRange().GetKvs()
			switch {
			case len(now) == 0: // deleted or expired
			case now[0].ModRevision == kv.ModRevision:
				outdated = append(outdated, kv)
			case !c.cipher.IsCurrent(now[0].Value):
				done.Contended++
			}
		}
	}
	return nil
}
