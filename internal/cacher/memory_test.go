package cacher_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
)

// memory is a store in memory that does what a test tells it: hold back its
// watch, compact, fail, count. It exists for what an etcd does not do on demand
// and for tests in synctest bubbles, where no socket and no disk may be. It
// keeps every revision of everything.
type memory struct {
	mu        sync.Mutex
	epoch     object.Epoch
	history   [][]object.Record // history[r-1] is what revision r did
	compacted object.Revision
	changed   chan struct{} // closed and replaced with every change
	down      error         // every call fails with it
	quiet     bool          // watches say nothing
	asked     int           // number of calls of Revision
	answer    chan struct{} // if set, Revision waits for one receive
	progress  int           // number of progress requests
}

func newMemory() *memory {
	return &memory{epoch: "e1", changed: make(chan struct{})}
}

// commit applies puts (value) and deletes (nil) at one revision.
func (m *memory) commit(writes map[object.Key][]byte) object.Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := object.Revision(len(m.history) + 1)
	now := m.stateLocked(at - 1)
	var records []object.Record
	for _, key := range slices.Sorted(maps.Keys(writes)) {
		old, exists := now[key]
		switch {
		case writes[key] != nil:
			r := object.Record{Key: key, Value: writes[key], CreateRevision: at, ModRevision: at, Version: 1}
			if exists {
				r.CreateRevision, r.Version = old.CreateRevision, old.Version+1
			}
			records = append(records, r)
		case exists:
			records = append(records, object.Record{Key: key, ModRevision: at, Deleted: true})
		}
	}
	m.history = append(m.history, records)
	m.changedLocked()
	return at
}

func (m *memory) put(key object.Key, value string) object.Revision {
	return m.commit(map[object.Key][]byte{key: []byte(value)})
}

func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.changedLocked()
}

func (m *memory) changedLocked() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) stateLocked(at object.Revision) map[object.Key]object.Record {
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

// state returns the keys and values at a revision.
func (m *memory) state(at object.Revision) map[object.Key]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := map[object.Key]string{}
	for key, r := range m.stateLocked(at) {
		values[key] = string(r.Value)
	}
	return values
}

func (m *memory) revision() object.Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return object.Revision(len(m.history))
}

func (m *memory) Epoch(context.Context) (object.Epoch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch, m.down
}

func (m *memory) Revision(ctx context.Context) (object.Revision, error) {
	m.mu.Lock()
	m.asked++
	now, answer, down := object.Revision(len(m.history)), m.answer, m.down
	m.mu.Unlock()
	if answer != nil {
		select {
		case <-answer:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return now, down
}

func (m *memory) Oldest(_ context.Context, floor, _ object.Revision) (object.Revision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(floor, m.compacted), m.down
}

func (m *memory) List(_ context.Context, at object.Revision, start object.Key, limit int) ([]object.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down != nil {
		return nil, false, m.down
	}
	if at < m.compacted {
		return nil, false, object.ErrCompacted
	}
	state := m.stateLocked(at)
	var records []object.Record
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if key < start {
			continue
		}
		if len(records) == limit {
			return records, true, nil
		}
		records = append(records, state[key])
	}
	return records, false, nil
}

func (m *memory) Watch(_ context.Context, after object.Revision) (object.Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memoryStream{m: m, at: after, told: after}, m.down
}

type memoryStream struct {
	m     *memory
	at    object.Revision // delivered up to here
	asked bool            // guarded by m.mu
	told  object.Revision // the last Through
}

func (s *memoryStream) Next(ctx context.Context) (object.Update, error) {
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

func (s *memoryStream) nextLocked() (object.Update, bool, error) {
	switch {
	case s.m.down != nil:
		return object.Update{}, false, s.m.down
	case s.m.quiet:
		return object.Update{}, false, nil
	case s.at < s.m.compacted:
		return object.Update{}, false, object.ErrCompacted
	}
	for int(s.at) < len(s.m.history) {
		records := s.m.history[s.at]
		s.at++
		if len(records) > 0 {
			s.told = s.at
			return object.Update{Records: records, Through: s.at}, true, nil
		}
	}
	if s.asked {
		s.asked = false
		s.told = s.at
		return object.Update{Through: s.at}, true, nil
	}
	return object.Update{}, false, nil
}

func (s *memoryStream) RequestProgress(context.Context) error {
	s.m.change(func() { s.asked = true; s.m.progress++ })
	return nil
}

func (s *memoryStream) Close() {}

// values returns the objects of a sequence as keys and values, and fails the test
// where they are not in ascending order of keys.
func values(t *testing.T, objects func(func(*object.Object) bool)) map[object.Key]string {
	t.Helper()
	got := map[object.Key]string{}
	last := object.Key("")
	for o := range objects {
		if len(got) > 0 && o.Key <= last {
			t.Errorf("key %q comes after %q", o.Key, last)
		}
		last = o.Key
		got[o.Key] = string(o.Value)
	}
	return got
}
