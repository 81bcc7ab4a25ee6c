package store

import (
	"context"
	"errors"
	"log/slog"
	"sort"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/epochs"
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
	page   pageSize

	// records has the history of the collection; nil: there is none.
	records *Collection
	orders  latestOrder

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
// cluster and the id in the record under [epochs.Key]. Epoch writes the record if there is
// none. If it may not read or write the record, the epoch is only the cluster id.
//
// All servers of one etcd get the same epoch. They get a new one when etcd has gone
// back, for example after a restore from a backup. The watches of this store have ended
// by then.
func (c *Collection) Epoch(ctx context.Context) (object.Epoch, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	epoch, err := c.store.epochs.Determine(call, c.prefix)
	return epoch, classify(ctx, err)
}

// Revision returns the revision of the store. It is at least as new as any write that
// was acknowledged before the call. If etcd has gone back to an older revision than this
// process has seen, Revision fails with [object.ErrUnavailable] until the caller asks
// for the epoch. It inspects the epoch if the client has reconnected: a restored etcd may
// have newer revisions.
func (c *Collection) Revision(ctx context.Context) (object.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err // an embedded etcd might answer in spite of it
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	h := c.store.epochs.History()
	before := h.Highest()
	r, err := c.readRevision(call)
	err = classify(ctx, err)
	c.store.calls.count(opRevision, err)
	if err != nil {
		return 0, err
	}
	if err := h.Check(r, before); err != nil {
		return 0, err
	}
	if err := c.verifyConnection(ctx); err != nil {
		return 0, err
	}
	if h.HasEnded() {
		return 0, epochs.ErrEnded
	}
	return r, nil
}

// readRevision returns the revision of etcd. An external etcd allows each user to read only some keys.
func (c *Collection) readRevision(ctx context.Context) (object.Revision, error) {
	if c.store.member != nil {
		return c.store.member.Revision(ctx)
	}
	resp, err := c.store.client.Get(ctx, c.prefix, clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return object.Revision(resp.Header.GetRevision()), nil
}

// Position returns the epoch of the store and its revision as [Collection.Revision]
// returns it. It inspects the epoch only if the epoch is unknown or has ended, or if
// the client has reconnected, so it usually costs one request.
func (c *Collection) Position(ctx context.Context) (object.Position, error) {
	for {
		epoch, h := c.store.epochs.Current()
		if epoch == "" || h.HasEnded() {
			var err error
			if epoch, err = c.Epoch(ctx); err != nil {
				return object.Position{}, err
			}
		}
		r, err := c.Revision(ctx)
		if ctx.Err() != nil {
			return object.Position{}, ctx.Err()
		}
		if now, h := c.store.epochs.Current(); now != epoch || h.HasEnded() {
			continue // the revision belongs to another epoch
		}
		return object.Position{Epoch: epoch, Revision: r}, err
	}
}

// verifyConnection makes sure that the last answer of etcd belongs to the known epoch,
// or that the history of the epoch has ended.
func (c *Collection) verifyConnection(ctx context.Context) error {
	if c.store.epochs.IsVerified() {
		return nil // without the cost of a context
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return classify(ctx, c.store.epochs.VerifyConnection(call))
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
