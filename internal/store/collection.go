package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Collection is the part of a store below one etcd prefix. Its methods may be called
// from any goroutine.
type Collection struct {
	store  *Store
	prefix string
	end    string // end of the key range of the prefix
	cipher Cipher
	log    *slog.Logger
	marks  progressMarks
	page   pageSize // of lists

	mu      sync.Mutex
	omitted map[string]bool // guarded by mu: omitted keys that were logged; bounded
}

// callTimeout is how long etcd may take to answer. It slightly exceeds etcd's own
// timeout (5 s and two elections). Without it, the client would retry an unreachable
// etcd until the caller's deadline.
const callTimeout = 8 * time.Second

// maxOmittedKeys bounds the memory that is needed to log each omitted key only once.
const maxOmittedKeys = 1000

// Epoch returns the identity of the revision space. It consists of the id of the etcd
// cluster and the id in the record under [EpochKey]. Epoch writes the record if there is
// none. If it may not read or write the record, the epoch is only the cluster id.
//
// All servers of one etcd get the same epoch. They get a new one when etcd has gone
// back, for example after a restore from a backup. The streams of this store have ended
// by then.
func (c *Collection) Epoch(ctx context.Context) (object.Epoch, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	epoch, err := c.store.epochs.determine(call, c.prefix)
	return epoch, classify(ctx, err)
}

// Revision returns the revision of the store. It is at least as new as any write that
// was acknowledged before the call. If etcd has gone back to an older revision than this
// process has seen, Revision fails with [object.ErrUnavailable] until the caller asks
// for the epoch.
func (c *Collection) Revision(ctx context.Context) (object.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err // an embedded etcd might answer in spite of it
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	h := c.store.epochs.currentHistory()
	before := h.highest.Load()
	resp, err := c.store.client.Get(call, c.prefix, clientv3.WithCountOnly())
	err = classify(ctx, err)
	c.store.calls.count(OpRevision, err)
	if err != nil {
		return 0, err
	}
	r := object.Revision(resp.Header.GetRevision())
	return r, h.check(r, before)
}

// Oldest returns the oldest revision that can still be listed. It searches from floor,
// which is at least 1, to ceiling, the current revision of the store.
func (c *Collection) Oldest(ctx context.Context, floor, ceiling object.Revision) (object.Revision, error) {
	// etcd reports the compacted revision only to watchers. A binary search takes about
	// twenty reads. They are cheap because etcd refuses a compacted revision before it
	// looks up any key.
	var failed error
	n := sort.Search(int(ceiling-floor), func(i int) bool {
		if failed != nil {
			return false
		}
		_, err := c.store.client.Get(ctx, c.prefix, clientv3.WithCountOnly(), clientv3.WithRev(int64(floor)+int64(i)))
		if err = classify(ctx, err); err != nil && !errors.Is(err, object.ErrCompacted) {
			failed = err
		}
		return err == nil
	})
	if failed != nil {
		return 0, failed
	}
	return floor + object.Revision(n), nil
}

// List returns at most limit records with keys from start on as of revision at, in
// ascending byte order of keys. It returns fewer if records are large. More reports whether
// further records follow; records is then not empty.
func (c *Collection) List(ctx context.Context, at object.Revision, start object.Key, limit int) (records []object.Record, more bool, err error) {
	return c.list(ctx, at, c.prefix+string(start), c.end, limit)
}

// list is [Collection.List] for a range of etcd keys.
func (c *Collection) list(ctx context.Context, at object.Revision, from, end string, limit int) (records []object.Record, more bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		// The read is linearizable although the revision is fixed: a lagging member
		// would refuse a revision that it has not applied yet.
		size := c.page.next(limit)
		resp, err := c.store.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(int64(at)), clientv3.WithLimit(int64(size)))
		err = classify(ctx, err)
		c.store.calls.count(OpList, err)
		if errors.Is(err, object.ErrAnswerTooLarge) && c.page.shrink(size) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		c.page.note(len(resp.Kvs), sizeOf(resp.Kvs))
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
