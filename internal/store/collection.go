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

// Collection is the part of a store below one etcd prefix. All its methods may be
// called from any goroutine.
type Collection struct {
	store  *Store
	prefix string
	end    string // the end of the key range that the prefix begins
	cipher Cipher
	log    *slog.Logger
	marks  marks

	mu      sync.Mutex
	leftOut map[string]bool // guarded by mu: keys that were logged as left out; bounded
}

// callTimeout is how long etcd may take to answer. It is a little more than etcd
// itself allows (5 s and two elections); beyond it there is no etcd, and the client
// would go on trying for as long as the caller has time.
const callTimeout = 8 * time.Second

// maxLeftOutLogged bounds what is remembered in order to log a key only once.
const maxLeftOutLogged = 1000

// Epoch returns the identity of the revision space: the id of the etcd cluster and
// that of the record under [EpochKey], which is written if there is none. Where it
// may not be read or written, the epoch is that of the cluster alone. All who use
// an etcd get the same, and get another one when etcd is found to have gone back,
// as after a restore from a backup. Then the streams of this store have ended.
func (c *Collection) Epoch(ctx context.Context) (object.Epoch, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	epoch, err := c.store.epochs.ask(call, c.prefix)
	return epoch, classify(ctx, err)
}

// Revision returns the revision of the store, not older than any write that was
// acknowledged before the call. If it is older than what this process has seen of
// the store, the call fails with [object.ErrUnavailable] until the epoch was asked
// for.
func (c *Collection) Revision(ctx context.Context) (object.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err // an etcd in this process may answer all the same
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	h := c.store.epochs.present()
	seen := h.newest.Load()
	resp, err := c.store.client.Get(call, c.prefix, clientv3.WithCountOnly())
	err = classify(ctx, err)
	c.store.calls.note(OpRevision, err)
	if err != nil {
		return 0, err
	}
	r := object.Revision(resp.Header.GetRevision())
	return r, h.check(r, seen)
}

// Oldest returns the oldest revision from floor (at least 1) to ceiling, the
// store's present revision, that can still be listed.
func (c *Collection) Oldest(ctx context.Context, floor, ceiling object.Revision) (object.Revision, error) {
	// etcd tells the revision of the last compaction to watchers only. But it
	// refuses a read at a compacted revision before it looks anything up, so
	// searching for the border costs some twenty cheap requests.
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

// List returns at most limit records with keys from start on, in ascending byte
// order of keys, as they were at revision at, and whether there are more. There
// are records if there are more.
func (c *Collection) List(ctx context.Context, at object.Revision, start object.Key, limit int) (records []object.Record, more bool, err error) {
	return c.list(ctx, at, c.prefix+string(start), c.end, limit)
}

// list is List of a range of etcd's keys.
func (c *Collection) list(ctx context.Context, at object.Revision, from, end string, limit int) (records []object.Record, more bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		// Linearizable, although the revision is fixed: a member that lags behind
		// would refuse a revision that it has not seen yet.
		resp, err := c.store.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(int64(at)), clientv3.WithLimit(int64(limit)))
		err = classify(ctx, err)
		c.store.calls.note(OpList, err)
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

// record is what etcd holds under a key. The value may share memory with the
// response, and with it with an in-process etcd: it must not be modified.
func (c *Collection) record(key object.Key, kv *mvccpb.KeyValue) object.Record {
	value, undecryptable := c.cipher.Open(string(kv.Key), kv.Value)
	return object.Record{
		Key:            key,
		Value:          value,
		Undecryptable:  undecryptable,
		CreateRevision: object.Revision(kv.CreateRevision),
		ModRevision:    object.Revision(kv.ModRevision),
		Version:        kv.Version,
	}
}

// key returns the key of an object in this collection. Keys that cannot be sent
// as text, and the bare prefix, are logged once and left out.
func (c *Collection) key(etcdKey []byte) (object.Key, bool) {
	key := etcdKey[len(c.prefix):]
	if len(key) > 0 && utf8.Valid(key) {
		return object.Key(key), true
	}
	if c.isMark(key) {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := string(etcdKey); !c.leftOut[s] && len(c.leftOut) < maxLeftOutLogged {
		if c.leftOut == nil {
			c.leftOut = map[string]bool{}
		}
		c.leftOut[s] = true
		c.log.Warn("a key in etcd is empty or not valid UTF-8, leaving it out", "key", fmt.Sprintf("%q", s))
	}
	return "", false
}

// LeftOut returns the number of keys that were found and left out because they
// are not valid UTF-8. It stops counting at 1,000.
func (c *Collection) OmittedKeys() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.leftOut)
}
