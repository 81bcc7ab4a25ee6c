package store

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/epochs"
)

// List returns at most limit records of the scope with keys from start on as of revision at, in
// ascending byte order of keys. It returns fewer if records are large. More reports whether
// further records follow; records is then not empty. List fails with [object.ErrUnavailable] if
// the epoch changes during the call.
func (c *Collection) List(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) (records []object.Record, more bool, err error) {
	first, end := c.keyRange(scope)
	err = c.inOneHistory(ctx, func() error {
		records, more, err = c.list(ctx, at, max(first, c.prefix+string(start)), end, limit)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return records, more, nil
}

// list is List for a range of etcd keys.
func (c *Collection) list(ctx context.Context, at object.Revision, from, end string, limit int) (records []object.Record, more bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		resp, err := c.read(ctx, from, end, at, limit)
		if err != nil {
			return nil, false, err
		}
		for _, kv := range resp.Kvs {
			if key, ok := c.key(kv.Key); ok {
				records = append(records, c.record(key, kv))
			}
		}
		if !resp.More || len(records) > 0 {
			return records, resp.More, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// read reads a page of a range of etcd keys as of a revision; 0 is the present one. The page has at
// most limit records, and about pageBytes.
func (c *Collection) read(ctx context.Context, from, end string, at object.Revision, limit int) (*clientv3.GetResponse, error) {
	for {
		// The read is linearizable even if the revision is fixed: a lagging member
		// would refuse a revision that it has not applied yet.
		size := c.page.next(limit)
		resp, err := c.store.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(int64(at)), clientv3.WithLimit(int64(size)))
		err = classify(ctx, err)
		c.store.calls.count(opList, err)
		if errors.Is(err, object.ErrAnswerTooLarge) && c.page.shrink(size) {
			continue
		}
		if err != nil {
			return nil, err
		}
		c.page.note(len(resp.Kvs), sizeOf(resp.Kvs))
		return resp, nil
	}
}

// Count returns the number of keys that [Collection.List] would return without a limit, plus
// those that it leaves out because they are not valid UTF-8. Its errors are those of List.
func (c *Collection) Count(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) (n int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	first, end := c.keyRange(scope)
	from := max(first, c.prefix+string(start))
	if from >= end {
		return 0, nil
	}
	err = c.inOneHistory(ctx, func() error {
		resp, err := c.store.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(int64(at)), clientv3.WithCountOnly())
		err = classify(ctx, err)
		c.store.calls.count(opList, err)
		if err == nil {
			n = resp.Count
		}
		return err
	})
	return n, err
}

// inOneHistory calls read, which reads at a revision. It returns [object.ErrUnavailable] if the
// answer may be of another epoch than the one that was known before: etcd may have been restored if
// the client has reconnected. This also covers the error that the revision is unknown.
func (c *Collection) inOneHistory(ctx context.Context, read func() error) error {
	_, h := c.store.epochs.Current()
	err := read()
	if ctx.Err() == nil {
		if err := c.verifyConnection(ctx); err != nil {
			return err
		}
	}
	if h.HasEnded() {
		return epochs.ErrEnded
	}
	return err
}

// keyRange returns the range of etcd keys of a scope, without the end.
func (c *Collection) keyRange(scope object.Scope) (first, end string) {
	first = c.prefix + string(scope.First())
	if _, ok := scope.Key(); ok {
		return first, first + "\x00"
	}
	return first, clientv3.GetPrefixRangeEnd(first)
}

// key returns the key of an object in this collection. It returns false for the bare
// prefix and for keys that are not valid UTF-8, and logs each of them once.
func (c *Collection) key(etcdKey []byte) (object.Key, bool) {
	key := etcdKey[len(c.prefix):]
	if len(key) > 0 && utf8.Valid(key) {
		return object.Key(key), true
	}
	if c.isProgressMark(key) {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := string(etcdKey); !c.omitted[s] && len(c.omitted) < maxOmittedKeys {
		if c.omitted == nil {
			c.omitted = map[string]bool{}
		}
		c.omitted[s] = true
		c.log.Warn("omitting a key in etcd that is empty or not valid UTF-8", "key", fmt.Sprintf("%q", s))
	}
	return "", false
}

// OmittedKeys returns the number of keys that were omitted because they are empty or
// not valid UTF-8. It stops counting at 1,000.
func (c *Collection) OmittedKeys() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.omitted)
}
