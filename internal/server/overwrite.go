package server

import (
	"context"
	"errors"
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// overwrites keeps the puts of a resource from replacing opaque objects, which may belong to
// another program. Only etcd knows what a put replaces. So a put names the mod revision of the
// object that the server knows, and is not opaque ([object.Op.Seen]). If the key has another one,
// the server reads the object that is there, decides, and tries again.
//
// docs/dev/store.md explains what that costs.
type overwrites struct {
	resource *backend.Resource

	// turn is held by the write that has failed repeatedly because others were faster. The writes
	// of this server then succeed one after another, instead of disturbing each other.
	turn chan struct{}

	mu     sync.Mutex
	latest map[object.Key]written // guarded by mu; at most maxWritten entries
}

// written is what a write of this server has left of a key. The cache may not have it yet.
type written struct {
	object object.Seen
	at     object.Revision // of the write
}

const (
	maxWritten       = 1024
	maxWriteAttempts = 16
)

// overwritesOf returns an overwrites for each resource.
func overwritesOf(resources backend.Resources) map[string]*overwrites {
	all := map[string]*overwrites{}
	for name, r := range resources {
		all[name] = &overwrites{resource: r, turn: make(chan struct{}, 1), latest: map[object.Key]written{}}
	}
	return all
}

// commit calls write, which sends the operations to the store, until they are applied or fail. The
// operations that must not replace opaque objects have Seen; commit sets its value.
func (w *overwrites) commit(ctx context.Context, ops []object.Op, write func() (object.Commit, error)) (object.Commit, error) {
	for i := range ops {
		if ops[i].Seen != nil {
			*ops[i].Seen = w.seen(ops[i].Key)
		}
	}
	for attempt := 1; ; attempt++ {
		commit, err := write()
		stale, ok := errors.AsType[*object.StaleError](err)
		if !ok {
			if err == nil {
				w.note(ops, commit)
			}
			return commit, err
		}
		if err := w.look(ctx, ops, stale); err != nil {
			return object.Commit{}, err
		}
		switch attempt {
		case maxWriteAttempts:
			return object.Commit{}, apierr.ErrContended
		case 2:
			select {
			case w.turn <- struct{}{}:
				defer func() { <-w.turn }()
			case <-ctx.Done():
				return object.Commit{}, ctx.Err()
			}
		}
	}
}

// seen returns the object with the key, as far as the server knows it. If it has another one
// meanwhile, or one that is opaque, only the first attempt fails.
func (w *overwrites) seen(key object.Key) object.Seen {
	w.mu.Lock()
	latest := w.latest[key]
	w.mu.Unlock()
	if w.resource.Cacher == nil {
		return latest.object
	}
	state := w.resource.Cacher.State()
	if state == nil || latest.at > state.Revision() {
		return latest.object
	}
	switch o := state.Get(key); {
	case o == nil:
		return object.Seen{}
	case o.Opaque():
		return object.Seen{ModRevision: object.Unseen}
	default:
		return object.Seen{ModRevision: o.ModRevision, Lease: o.Lease()}
	}
}

// look takes note of the objects that a failed write has found. It returns an error if one of them
// is opaque. It reads one object at a time, because all of them may need much memory.
func (w *overwrites) look(ctx context.Context, ops []object.Op, found *object.StaleError) error {
	for i := range ops {
		seen, have := ops[i].Seen, found.Have[i]
		if seen == nil || seen.ModRevision == have {
			continue
		}
		if *seen = (object.Seen{}); have == 0 {
			continue
		}
		records, _, err := w.resource.Store.List(ctx, found.At, object.ExactKey(ops[i].Key), "", 1)
		switch {
		case errors.Is(err, object.ErrCompacted), err == nil && (len(records) == 0):
			// The revision is gone, or the store was restored meanwhile. The next attempt finds another one.
			seen.ModRevision = object.Unseen
			continue
		case err != nil:
			return err
		}
		r := &records[0]
		if o, reason := object.Build(w.resource.Codec, r); o.Opaque {
			return &apierr.OpaqueError{Key: r.Key, ModRevision: r.ModRevision, Codec: w.resource.Codec.Name(), Reason: reason}
		}
		*seen = object.Seen{ModRevision: r.ModRevision, Lease: r.Lease}
	}
	return nil
}

// note takes note of a write, so that the next one to the same keys need not wait for the cache.
func (w *overwrites) note(ops []object.Op, commit object.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, op := range ops {
		now := written{at: commit.Revision}
		switch {
		case op.Kind == object.OpPut && op.KeepTTL && op.Seen == nil:
			delete(w.latest, op.Key) // its lease is not known
			continue
		case op.Kind == object.OpPut && op.KeepTTL:
			now.object = object.Seen{ModRevision: commit.Revision, Lease: op.Seen.Lease}
		case op.Kind == object.OpPut:
			now.object = object.Seen{ModRevision: commit.Revision, Lease: commit.Leases[i]}
		case !commit.Deleted[i]:
			continue
		}
		if len(w.latest) >= maxWritten {
			clear(w.latest)
		}
		w.latest[op.Key] = now
	}
}
