package store

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// What bounds the pieces of a rewrite: records are read by number, and nobody knows
// before how large they are.
const (
	firstRewritten   = 32
	rewriteReadBytes = 4 << 20
	rewriteBytes     = 256 << 10 // of values in one transaction, unless one alone is larger
)

// Rewrite reads at most limit records with keys from start on and stores those anew,
// with their leases, that are not stored as the cipher would do it today. It does so in
// transactions of at most batch records, and only what is still as it was read: other
// writers win. Where it fails, what was done is done; it can be called again with the
// same start.
func (c *Collection) Rewrite(ctx context.Context, start object.Key, limit, batch int) (object.RewriteResult, error) {
	done := object.RewriteResult{More: true, Next: start}
	for size := firstRewritten; done.More && done.Examined < limit; {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := c.store.client.Get(call, c.prefix+string(done.Next), clientv3.WithRange(c.end),
			clientv3.WithLimit(int64(min(size, limit-done.Examined))))
		cancel()
		if err != nil {
			return done, fmt.Errorf("read what is to be stored anew: %w", classify(ctx, err))
		}
		if err := c.rewriteAll(ctx, resp.Kvs, batch, &done); err != nil {
			return done, err
		}
		bytes := 1
		for _, kv := range resp.Kvs {
			bytes += len(kv.Value)
			done.Next = object.Key(kv.Key[len(c.prefix):]) + "\x00"
		}
		done.Examined += len(resp.Kvs)
		done.More, done.Remaining = resp.More, resp.Count-int64(len(resp.Kvs))
		// As many as would fit if the next were like these, but not many more at a time.
		size = max(1, min(2*size, rewriteReadBytes*len(resp.Kvs)/bytes))
	}
	return done, nil
}

// rewriteAll stores those of the records anew for which that is due, a batch at a time.
func (c *Collection) rewriteAll(ctx context.Context, kvs []*mvccpb.KeyValue, batch int, done *object.RewriteResult) error {
	var due []*mvccpb.KeyValue
	bytes := 0
	flush := func() error {
		err := c.rewrite(ctx, due, done)
		due, bytes = nil, 0
		return err
	}
	for _, kv := range kvs {
		// Left alone: what is no object, such as the mark.
		if _, ok := c.key(kv.Key); !ok || c.cipher.IsCurrent(kv.Value) {
			continue
		}
		if len(due) == batch || len(due) > 0 && bytes+len(kv.Value) > rewriteBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		due = append(due, kv)
		bytes += len(kv.Value)
	}
	return flush()
}

// rewrite stores records anew in one transaction. Where others have written some of them
// meanwhile, it takes the rest again: at most once for each of them.
func (c *Collection) rewrite(ctx context.Context, due []*mvccpb.KeyValue, done *object.RewriteResult) error {
	for len(due) > 0 {
		var compares []clientv3.Cmp
		var puts, reads []clientv3.Op
		var taken []*mvccpb.KeyValue
		for _, kv := range due {
			key := string(kv.Key)
			value, undecryptable := c.cipher.Open(key, kv.Value)
			if undecryptable != nil {
				done.Undecryptable++ // and logged by whoever serves it
				continue
			}
			stored, err := c.cipher.Seal(key, value)
			if err != nil {
				return err
			}
			taken = append(taken, kv)
			compares = append(compares, clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision))
			puts = append(puts, clientv3.OpPut(key, string(stored), clientv3.WithIgnoreLease()))
			reads = append(reads, clientv3.OpGet(key))
		}
		if len(taken) == 0 {
			return nil
		}
		h := c.store.epochs.present()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := c.store.client.Txn(call).If(compares...).Then(puts...).Else(reads...).Commit()
		cancel()
		if err != nil {
			return fmt.Errorf("store values anew: %w", classify(ctx, err))
		}
		h.note(object.Revision(resp.Header.GetRevision()))
		if resp.Succeeded {
			done.Rewritten += len(taken)
			return nil
		}
		due = nil
		for i, kv := range taken {
			now := resp.Responses[i].GetResponseRange().GetKvs()
			switch {
			case len(now) == 0: // deleted, or its time has come
			case now[0].ModRevision == kv.ModRevision:
				due = append(due, kv)
			case !c.cipher.IsCurrent(now[0].Value):
				done.Contended++
			}
		}
	}
	return nil
}

// Cipher says what is stored for a value. All keys are whole keys of etcd. Its methods
// may be called from any goroutine.
type Cipher interface {
	// Seal returns what is to be stored under a key for a value.
	Seal(etcdKey string, value []byte) (stored []byte, err error)

	// Open returns the value of what is stored under a key. Both may share memory with
	// what they are given.
	Open(etcdKey string, stored []byte) (value []byte, err *object.UndecryptableError)

	// Fresh reports whether something is stored as Seal would do it today.
	IsCurrent(stored []byte) bool
}

// plain stores values as they are.
type plain struct{}

func (plain) Seal(_ string, value []byte) ([]byte, error) { return value, nil }

func (plain) Open(_ string, stored []byte) ([]byte, *object.UndecryptableError) { return stored, nil }

func (plain) IsCurrent([]byte) bool { return true }

// seal returns what is to be stored for each operation that is a put.
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
