package testserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// store stands for etcd: collections of keys that share one revision.
type store struct {
	collections []*collection

	mu        sync.Mutex
	changed   chan struct{}       // closed and replaced with every change; guarded by mu
	epochs    int                 // the number of the present one; guarded by mu
	history   []revision          // history[r-1] is revision r; guarded by mu
	compacted object.Revision     // older revisions are unknown; guarded by mu
	down      bool                // every call fails; guarded by mu
	lastLease int64               // guarded by mu
	leases    map[int64]time.Time // when they end; guarded by mu
}

// revision has the records that changed, by collection.
type revision map[*collection][]object.Record

// collection is the keys of one resource. It is what fanoutd needs of etcd.
type collection struct {
	store *store
	name  string
	now   map[object.Key]object.Record // the state after the last revision; guarded by store.mu
}

func newStore(resources []string) *store {
	s := &store{
		changed: make(chan struct{}), epochs: 1, leases: map[int64]time.Time{},
		history: []revision{nil}, // like etcd, an empty store has revision 1
	}
	for _, name := range resources {
		s.collections = append(s.collections, &collection{store: s, name: name, now: map[object.Key]object.Record{}})
	}
	return s
}

// epochLocked returns the name of the present epoch. The caller holds mu.
func (s *store) epochLocked() object.Epoch { return object.Epoch(fmt.Sprintf("test-%d", s.epochs)) }

// lockedRevision returns the latest revision. The caller holds mu.
func (s *store) lockedRevision() object.Revision { return object.Revision(len(s.history)) }

// wakeLocked wakes the watches. The caller holds mu.
func (s *store) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// errLocked returns the error of a call. The caller holds mu.
func (s *store) errLocked() error {
	if s.down {
		return object.ErrUnavailable
	}
	return nil
}

// setDown makes the store fail, or work again.
func (s *store) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	s.wakeLocked()
}

// compact forgets the history. It makes a revision first, so that no earlier position is the latest one.
func (s *store) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, nil)
	s.compacted = s.lockedRevision()
	s.wakeLocked()
}

// begin begins another epoch: the same objects with other revisions, as in an etcd that was restored.
func (s *store) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	restored := revision{}
	const at = 2
	for _, c := range s.collections {
		for key, r := range c.now {
			r.CreateRevision, r.ModRevision, r.Version = at, at, 1
			c.now[key] = r
			restored[c] = append(restored[c], r)
		}
	}
	s.epochs++
	s.history, s.compacted = []revision{nil, restored}, 0
	s.wakeLocked()
}

// Commit implements backend.Store.
func (c *collection) Commit(ctx context.Context, ops []object.Op) (object.Commit, error) {
	if err := ctx.Err(); err != nil {
		return object.Commit{}, err
	}
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.errLocked(); err != nil {
		return object.Commit{}, err
	}
	if conflict := c.conflictLocked(ops); conflict != nil {
		return object.Commit{}, conflict
	}
	at := s.lockedRevision() + 1
	commit := object.Commit{Deleted: make([]bool, len(ops)), Leases: make([]int64, len(ops)), Records: make([]*object.Record, len(ops))}
	var records []object.Record
	for i, op := range ops {
		old, exists := c.now[op.Key]
		switch op.Kind {
		case object.OpPut:
			r := object.Record{Key: op.Key, Value: op.Value, CreateRevision: at, ModRevision: at, Version: 1}
			if exists {
				r.CreateRevision, r.Version = old.CreateRevision, old.Version+1
			}
			if op.KeepTTL {
				r.Lease = old.Lease
			} else {
				delete(s.leases, old.Lease)
			}
			if op.TTL > 0 {
				r.Lease = c.grantLocked(op.Key, op.TTL)
				commit.Leases[i] = r.Lease
			}
			c.now[op.Key] = r
			records = append(records, r)
		case object.OpDelete:
			if !exists {
				continue
			}
			commit.Deleted[i] = true
			if op.ReturnDeleted {
				commit.Records[i] = &old
			}
			delete(s.leases, old.Lease)
			delete(c.now, op.Key)
			records = append(records, object.Record{Key: op.Key, ModRevision: at, Deleted: true})
		case object.OpCheck:
		}
	}
	if len(records) > 0 {
		s.history = append(s.history, revision{c: records})
		s.wakeLocked()
	}
	commit.Revision = s.lockedRevision()
	return commit, nil
}

// conflictLocked returns the error for the first precondition that does not hold, or for objects that
// the server has not seen. The caller holds mu.
func (c *collection) conflictLocked(ops []object.Op) error {
	var conflict *object.ConflictError
	stale := false
	current, seen := make([]*object.Record, len(ops)), make([]object.Revision, len(ops))
	for i, op := range ops {
		have, exists := c.now[op.Key]
		seen[i] = have.ModRevision
		stale = stale || op.Seen != nil && have.ModRevision != op.Seen.ModRevision
		if op.If == nil {
			continue
		}
		if exists && op.ReturnCurrent {
			current[i] = &have
		}
		if have.ModRevision != *op.If && conflict == nil {
			conflict = &object.ConflictError{Current: current, Key: op.Key, Want: *op.If, Have: have.ModRevision, At: c.store.lockedRevision()}
		}
	}
	switch {
	case conflict != nil:
		return conflict
	case stale:
		return &object.StaleError{Have: seen, At: c.store.lockedRevision()}
	}
	return nil
}

// grantLocked returns a lease that deletes the key when its time is over, if the key still has it then. The caller
// holds mu.
func (c *collection) grantLocked(key object.Key, ttl time.Duration) int64 {
	s := c.store
	s.lastLease++
	id := s.lastLease
	s.leases[id] = time.Now().Add(ttl)
	time.AfterFunc(ttl, func() { c.expire(key, id) })
	return id
}

func (c *collection) expire(key object.Key, id int64) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.now[key].Lease != id {
		return
	}
	delete(s.leases, id)
	delete(c.now, key)
	s.history = append(s.history, revision{c: {{Key: key, ModRevision: s.lockedRevision() + 1, Deleted: true}}})
	s.wakeLocked()
}

// Rewrite implements backend.Store: nothing is encrypted, so every record is current.
func (c *collection) Rewrite(context.Context, object.Key, int, int) (object.RewriteResult, error) {
	return object.RewriteResult{}, nil
}

// OmittedKeys implements backend.Store: the server refuses such keys.
func (c *collection) OmittedKeys() int { return 0 }

// RemainingTTL implements backend.Store.
func (c *collection) RemainingTTL(_ context.Context, id int64) (time.Duration, error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	ends, ok := c.store.leases[id]
	if err := c.store.errLocked(); err != nil || !ok {
		return 0, err
	}
	return max(0, time.Until(ends).Truncate(time.Second)), nil
}

// Epoch implements cacher.Store.
func (c *collection) Epoch(context.Context) (object.Epoch, error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.store.epochLocked(), c.store.errLocked()
}

// Revision implements cacher.Store.
func (c *collection) Revision(context.Context) (object.Revision, error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.store.lockedRevision(), c.store.errLocked()
}

// Oldest implements cacher.Store.
func (c *collection) Oldest(_ context.Context, floor, _ object.Revision) (object.Revision, error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return max(floor, c.store.compacted), c.store.errLocked()
}

// List implements cacher.Store.
func (c *collection) List(_ context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) (records []object.Record, more bool, err error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if err := c.store.errLocked(); err != nil {
		return nil, false, err
	}
	if at < c.store.compacted {
		return nil, false, object.ErrCompacted
	}
	for key, r := range c.stateLocked(at) {
		if key >= start && scope.Contains(key) {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b object.Record) int { return strings.Compare(string(a.Key), string(b.Key)) })
	if len(records) > limit {
		return records[:limit], true, nil
	}
	return records, false, nil
}

// stateLocked returns the records as of a revision. The caller holds mu.
func (c *collection) stateLocked(at object.Revision) map[object.Key]object.Record {
	if at >= c.store.lockedRevision() {
		return c.now
	}
	state := map[object.Key]object.Record{}
	for _, changes := range c.store.history[:at] {
		for _, r := range changes[c] {
			if r.Deleted {
				delete(state, r.Key)
			} else {
				state[r.Key] = r
			}
		}
	}
	return state
}

// Watch implements cacher.Store, for the whole resource without previous records.
func (c *collection) Watch(_ context.Context, _ object.Scope, after object.Position, _ bool) (object.Watch, error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if err := c.store.errLocked(); err != nil {
		return nil, err
	}
	if after.Epoch != c.store.epochLocked() {
		return nil, object.ErrUnavailable
	}
	return &watch{collection: c, epoch: after.Epoch, at: after.Revision}, nil
}

// watch is a watch of a collection.
type watch struct {
	collection *collection
	epoch      object.Epoch
	at         object.Revision // delivered up to here; guarded by store.mu
	asked      bool            // for its progress; guarded by store.mu
}

// Next implements object.Watch.
func (s *watch) Next(ctx context.Context) (object.Update, error) {
	store := s.collection.store
	for {
		store.mu.Lock()
		changed := store.changed
		u, ok, err := s.nextLocked()
		store.mu.Unlock()
		if ok || err != nil {
			return u, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return object.Update{}, ctx.Err()
		}
	}
}

func (s *watch) nextLocked() (u object.Update, ok bool, err error) {
	store := s.collection.store
	switch {
	case store.down || s.epoch != store.epochLocked():
		return u, false, object.ErrUnavailable
	case s.at < store.compacted-1:
		return u, false, object.ErrCompacted
	}
	for ; s.at < store.lockedRevision(); s.at++ {
		u.Records = append(u.Records, store.history[s.at][s.collection]...)
	}
	if len(u.Records) == 0 && !s.asked {
		return u, false, nil
	}
	s.asked = false
	u.Through = s.at
	return u, true, nil
}

// RequestProgress implements object.Watch.
func (s *watch) RequestProgress(context.Context) error {
	s.collection.store.mu.Lock()
	defer s.collection.store.mu.Unlock()
	s.asked = true
	s.collection.store.wakeLocked()
	return nil
}

// Close implements object.Watch.
func (s *watch) Close() {}
