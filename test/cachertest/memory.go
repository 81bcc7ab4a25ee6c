// Package cachertest has stores in memory for tests of the cacher and of packages above it:
// [Memory], which tests control, and [Generator], for very long histories.
package cachertest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Memory is a store in memory that a test controls: it can hold back watches, compact, fail
// and count requests. It is for behaviour that etcd does not show on demand, and for tests
// in synctest bubbles, which cannot use sockets or disks. It keeps every revision of every
// key.
type Memory struct {
	mu      sync.Mutex
	changed chan struct{}                // guarded by mu; closed and replaced with every change
	history [][]object.Record            // guarded by mu; history[r-1] has the changes of revision r
	now     map[object.Key]object.Record // guarded by mu; the state after the last revision
	epoch   object.Epoch                 // guarded by mu
	opened  int                          // guarded by mu; number of watches so far

	// The fields below are guarded by mu. Tests set them inside Change.

	Compacted object.Revision
	Down      error                    // every call fails with this error
	Quiet     bool                     // watches deliver nothing
	Silent    int                      // the first Silent watches deliver nothing
	Lose      func(object.Record) bool // watches leave out the records for which it is true
	Requests  int                      // number of calls of Revision
	Answer    chan struct{}            // if set, Revision waits until it can receive from it

	// Fault, if set, returns the error of every call of a method of the store or of a
	// watch. It is called with the mutex held.
	Fault func(method string) error
}

// empty returns the history of an empty store. Its first revision is 1, as in etcd.
func empty() [][]object.Record { return make([][]object.Record, 1) }

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{epoch: "e1", history: empty(), now: map[object.Key]object.Record{}, changed: make(chan struct{})}
}

// Commit applies puts (value) and deletes (nil) at one revision.
func (m *Memory) Commit(writes map[object.Key][]byte) object.Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := object.Revision(len(m.history) + 1)
	var records []object.Record
	for _, key := range slices.Sorted(maps.Keys(writes)) {
		old, exists := m.now[key]
		switch {
		case writes[key] != nil:
			r := object.Record{Key: key, Value: writes[key], CreateRevision: at, ModRevision: at, Version: 1}
			if exists {
				r.CreateRevision, r.Version = old.CreateRevision, old.Version+1
			}
			records = append(records, r)
			m.now[key] = r
		case exists:
			delete(m.now, key)
			records = append(records, object.Record{Key: key, ModRevision: at, Deleted: true})
		}
	}
	m.history = append(m.history, records)
	m.changedLocked()
	return at
}

// Put writes one key.
func (m *Memory) Put(key object.Key, value string) object.Revision {
	return m.Commit(map[object.Key][]byte{key: []byte(value)})
}

// Change calls f with the mutex held and wakes the watches.
func (m *Memory) Change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.changedLocked()
}

func (m *Memory) changedLocked() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Memory) stateLocked(at object.Revision) map[object.Key]object.Record {
	state := map[object.Key]object.Record{}
	for _, records := range m.history[:at] {
		for _, r := range records {
			if r.Deleted {
				delete(state, r.Key)
			} else {
				state[r.Key] = r
			}
		}
	}
	return state
}

// State returns the keys and values at a revision.
func (m *Memory) State(at object.Revision) map[object.Key]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := map[object.Key]string{}
	for key, r := range m.stateLocked(at) {
		values[key] = string(r.Value)
	}
	return values
}

// History returns the changes of each revision, beginning with revision 1.
func (m *Memory) History() [][]object.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history)
}

// Now returns the newest revision.
func (m *Memory) Now() object.Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return object.Revision(len(m.history))
}

// failsLocked returns the error of a call of the method. The caller holds mu.
func (m *Memory) failsLocked(method string) error {
	if m.Down == nil && m.Fault != nil {
		return m.Fault(method)
	}
	return m.Down
}

// Epoch implements cacher.Store.
func (m *Memory) Epoch(context.Context) (object.Epoch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch, m.failsLocked("Epoch")
}

// Revision implements cacher.Store.
func (m *Memory) Revision(ctx context.Context) (object.Revision, error) {
	m.mu.Lock()
	m.Requests++
	now, answer, err := object.Revision(len(m.history)), m.Answer, m.failsLocked("Revision")
	m.mu.Unlock()
	if answer != nil {
		select {
		case <-answer:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return now, err
}

// Oldest implements cacher.Store.
func (m *Memory) Oldest(_ context.Context, floor, _ object.Revision) (object.Revision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(floor, m.Compacted), m.failsLocked("Oldest")
}

// List implements cacher.Store.
func (m *Memory) List(_ context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) ([]object.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failsLocked("List"); err != nil {
		return nil, false, err
	}
	if at < m.Compacted {
		return nil, false, object.ErrCompacted
	}
	state := m.stateLocked(at)
	var records []object.Record
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if key < start || !scope.Contains(key) {
			continue
		}
		if len(records) == limit {
			return records, true, nil
		}
		records = append(records, state[key])
	}
	return records, false, nil
}

// Watch implements cacher.Store, for whole resources without previous records.
func (m *Memory) Watch(_ context.Context, _ object.Scope, after object.Position, _ bool) (object.Watch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if after.Epoch != m.epoch {
		return nil, object.ErrUnavailable
	}
	m.opened++
	return &memoryWatch{m: m, epoch: m.epoch, after: after.Revision, at: after.Revision, number: m.opened}, m.failsLocked("Watch")
}

// Back removes everything after a revision, as if the store had been restored from a backup
// under the same epoch.
func (m *Memory) Back(to object.Revision) {
	m.Change(func() { m.history, m.now = m.history[:to:to], m.stateLocked(to) })
}

// Restart empties the store and gives it a new epoch.
func (m *Memory) Restart(epoch object.Epoch) {
	m.Change(func() {
		m.epoch, m.history, m.now, m.Compacted = epoch, empty(), map[object.Key]object.Record{}, 0
	})
}

type memoryWatch struct {
	m      *Memory
	epoch  object.Epoch
	after  object.Revision // where it began
	at     object.Revision // delivered up to here
	asked  bool            // guarded by m.mu
	number int
}

func (s *memoryWatch) Next(ctx context.Context) (object.Update, error) {
	for {
		s.m.mu.Lock()
		changed := s.m.changed
		u, ok, err := s.nextLocked()
		s.m.mu.Unlock()
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

func (s *memoryWatch) nextLocked() (object.Update, bool, error) {
	if err := s.m.failsLocked("Next"); err != nil {
		return object.Update{}, false, err
	}
	switch {
	case s.epoch != s.m.epoch:
		return object.Update{}, false, object.ErrUnavailable
	case s.m.Quiet, s.number <= s.m.Silent:
		return object.Update{}, false, nil
	case s.at < s.m.Compacted:
		return object.Update{}, false, object.ErrCompacted
	}
	for int(s.at) < len(s.m.history) {
		records := s.m.history[s.at]
		if s.m.Lose != nil {
			records = slices.DeleteFunc(slices.Clone(records), s.m.Lose)
		}
		s.at++
		if len(records) > 0 {
			return object.Update{Records: records, Through: s.at}, true, nil
		}
	}
	// Like etcd, the store does not answer a progress request while the first revision of
	// the watch is still to come.
	if s.asked && s.at > s.after && int(s.at) <= len(s.m.history) {
		s.asked = false
		return object.Update{Through: s.at}, true, nil
	}
	return object.Update{}, false, nil
}

func (s *memoryWatch) RequestProgress(context.Context) error {
	s.m.Change(func() { s.asked = true })
	return nil
}

func (s *memoryWatch) Close() {}
