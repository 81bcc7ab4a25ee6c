package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/work"
)

// overwrites makes the writes of a resource act on the objects that the server has checked. It keeps puts
// from replacing opaque objects, which may belong to another program, and writes from replacing other
// objects than those that validation rules have read; and it records what writes replace. Only etcd knows
// what a write replaces. So a write names the mod revision of the object that the server knows
// ([object.Op.Seen]). If the key has another one, the server reads the object that is there, decides, and
// tries again.
//
// docs/dev/store.md explains what that costs, and docs/dev/validation.md what rules read.
type overwrites struct {
	resource *backend.Resource

	turns work.KeyTurns[object.Key] // of writes to the same keys

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
		all[name] = &overwrites{resource: r, turns: work.KeyTurns[object.Key]{Patience: turnPatience}, latest: map[object.Key]written{}}
	}
	return all
}

// commit calls write, which sends the operations to the store, until they are applied or fail. The
// operations that must not replace opaque objects, or whose checks read the object that they replace, have
// Seen; commit sets its value. The checks, which may be nil, are made before each attempt. If the resource
// has a history, commit records the change.
func (w *overwrites) commit(ctx context.Context, ops []object.Op, by history.Change, checks *checks, write func() (object.Commit, error)) (object.Commit, error) {
	records := w.resource.History
	if records != nil {
		seeEverything(ops)
	}
	turn := writeTurn{turns: &w.turns}
	defer turn.leave()
	if turn.isNeeded(ops) {
		if _, err := turn.await(ctx, ops); err != nil {
			return object.Commit{}, notSent(err)
		}
	}
	if err := w.begin(ctx, ops, checks); err != nil {
		return object.Commit{}, notSent(err)
	}
	for attempt := 1; ; attempt++ {
		if err := checks.run(ctx); err != nil {
			return object.Commit{}, notSent(err)
		}
		var epoch object.Epoch
		if records != nil {
			var err error
			if epoch, err = records.Recorder.Prepare(ctx, ops, by, w.present); err != nil {
				return object.Commit{}, notSent(err)
			}
		}
		commit, err := write()
		stale, ok := errors.AsType[*object.StaleError](err)
		if !ok {
			if err == nil {
				w.note(ops, commit)
				if records != nil {
					records.Recorder.Note(ops, commit.Revision, epoch)
				}
			}
			return commit, err
		}
		waited, err := turn.await(ctx, ops)
		switch {
		case err != nil:
		case waited:
			err = w.begin(ctx, ops, checks) // what the write has found is no longer there
		default:
			err = w.look(ctx, ops, checks, stale)
		}
		if err != nil {
			return object.Commit{}, notSent(err)
		}
		if attempt == maxWriteAttempts {
			return object.Commit{}, apierr.ErrContended
		}
	}
}

// notSent returns the error of a write that ended before it was sent, which is known not to be applied.
func notSent(err error) error {
	if errors.Is(err, object.ErrUnavailable) {
		return fmt.Errorf("%w: %w", object.ErrNotApplied, err)
	}
	return err
}

// check makes the checks of operations that are not written. Preconditions are not compared, but one that
// requires that there is no object means that there is none.
func (w *overwrites) check(ctx context.Context, ops []object.Op, checks *checks) error {
	for i := range ops {
		if ops[i].If != nil && *ops[i].If != 0 {
			ops[i].If = nil
		}
	}
	if err := w.begin(ctx, ops, checks); err != nil {
		return err
	}
	return checks.run(ctx)
}

// seeEverything makes all writes of a resource with a history name the object that they replace.
func seeEverything(ops []object.Op) {
	for i := range ops {
		if op := &ops[i]; op.Seen == nil && op.Kind != object.OpCheck {
			op.Seen, op.ReplaceOpaque = &object.Seen{}, true
		}
	}
}

// begin sets Seen, and finds the objects that the checks read.
func (w *overwrites) begin(ctx context.Context, ops []object.Op, checks *checks) error {
	for i := range ops {
		switch {
		case ops[i].Seen == nil:
		case checks.reads(i):
			if err := w.find(ctx, ops, checks, i); err != nil {
				return err
			}
		default:
			*ops[i].Seen = w.seen(ops[i].Key, ops[i].ReplaceOpaque)
		}
	}
	return nil
}

// find finds the object that the checks of an operation read: in the cache, unless this server has written a
// later one, or in the store.
func (w *overwrites) find(ctx context.Context, ops []object.Op, checks *checks, i int) error {
	w.mu.Lock()
	latest := w.latest[ops[i].Key]
	w.mu.Unlock()
	if w.resource.Cacher != nil {
		if state := w.resource.Cacher.State(); state != nil && latest.at <= state.Revision() {
			if d := decoded(state.Get(ops[i].Key)); d == nil || !d.Opaque {
				return w.take(ops, checks, i, d, nil)
			}
		}
	}
	return w.read(ctx, ops, checks, i, 0)
}

// take notes the object that an operation will replace, nil for none. It returns an error if the object is
// opaque and the operation must not replace such an object. Reason is why it is opaque.
func (w *overwrites) take(ops []object.Op, checks *checks, i int, d *object.Decoded, reason error) error {
	seen := ops[i].Seen
	switch {
	case d == nil:
		*seen = object.Seen{}
	case d.Opaque && !ops[i].ReplaceOpaque && ops[i].If != nil && *ops[i].If != d.ModRevision:
		// The precondition does not hold either, and is the reason that the caller gets.
		seen.ModRevision = object.Unseen
		checks.forgets(i)
		return nil
	case d.Opaque && !ops[i].ReplaceOpaque:
		return &apierr.OpaqueError{Key: d.Key, ModRevision: d.ModRevision, Codec: w.resource.Codec.Name(), Reason: reason}
	default:
		*seen = object.Seen{ModRevision: d.ModRevision, Lease: d.Lease}
	}
	checks.sees(i, d)
	return nil
}

// read reads the object that an operation will replace, as of a revision; 0 is the present one.
func (w *overwrites) read(ctx context.Context, ops []object.Op, checks *checks, i int, at object.Revision) error {
	records, _, err := w.resource.Store.List(ctx, at, object.ExactKey(ops[i].Key), "", 1)
	switch {
	case errors.Is(err, object.ErrCompacted), err == nil && len(records) == 0 && at != 0:
		// The revision is gone, or the store was restored meanwhile. The next attempt finds another one.
		ops[i].Seen.ModRevision = object.Unseen
		checks.forgets(i)
		return nil
	case err != nil:
		return err
	case len(records) == 0:
		return w.take(ops, checks, i, nil, nil)
	}
	d, reason := object.Build(w.resource.Codec, &records[0])
	return w.take(ops, checks, i, &d, reason)
}

// seen returns the object with the key, as far as the server knows it. If it has another one
// meanwhile, or one that is opaque and must not be replaced, only the first attempt fails.
func (w *overwrites) seen(key object.Key, replaceOpaque bool) object.Seen {
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
	case o.Opaque() && !replaceOpaque:
		return object.Seen{ModRevision: object.Unseen}
	default:
		return object.Seen{ModRevision: o.ModRevision, Lease: o.Lease()}
	}
}

// look takes note of the objects that a failed write has found. It returns an error if one of them
// is opaque and must not be replaced. It reads one object at a time, because all of them may need much memory.
func (w *overwrites) look(ctx context.Context, ops []object.Op, checks *checks, found *object.StaleError) error {
	for i := range ops {
		seen, have := ops[i].Seen, found.Have[i]
		if seen == nil || seen.ModRevision == have {
			continue
		}
		var err error
		if have == 0 {
			err = w.take(ops, checks, i, nil, nil)
		} else {
			err = w.read(ctx, ops, checks, i, found.At)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// present returns the present object of a key, or nil.
func (w *overwrites) present(ctx context.Context, key object.Key) (*object.Record, error) {
	records, _, err := w.resource.Store.List(ctx, 0, object.ExactKey(key), "", 1)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return &records[0], nil
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
