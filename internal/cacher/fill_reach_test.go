package cacher_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// probedStore is a store that a fill looks at.
type probedStore struct {
	*cachertest.Memory
	asked   func()          // called after the first answer to Revision
	slowest object.Revision // until the fill begins, watches from before this revision deliver nothing

	mu           sync.Mutex
	floor, begin object.Revision // guarded by mu: where the fill wants to begin, and does
	probes       int             // guarded by mu: watches before that
}

func (s *probedStore) Revision(ctx context.Context) (object.Revision, error) {
	at, err := s.Memory.Revision(ctx)
	if s.asked != nil {
		s.asked()
		s.asked = nil
	}
	return at, err
}

func (s *probedStore) Oldest(ctx context.Context, floor, ceiling object.Revision) (object.Revision, error) {
	begin, err := s.Memory.Oldest(ctx, floor, ceiling)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begin == 0 {
		s.floor, s.begin = floor, begin
	}
	return begin, err
}

func (s *probedStore) Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error) {
	w, err := s.Memory.Watch(ctx, scope, after, previous)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begin > 0 {
		return w, err
	}
	s.probes++
	if after.Revision < s.slowest {
		return silentWatch{w}, err
	}
	return eagerWatch{w, s.Memory}, err
}

// eagerWatch delivers all that there is in one update, as etcd does.
type eagerWatch struct {
	object.Watch
	m *cachertest.Memory
}

func (w eagerWatch) Next(ctx context.Context) (object.Update, error) {
	all, err := w.Watch.Next(ctx)
	for err == nil && all.Through < w.m.Now() {
		var u object.Update
		u, err = w.Watch.Next(ctx)
		all.Records, all.Through = append(all.Records, u.Records...), u.Through
	}
	return all, err
}

// silentWatch is a watch without updates.
type silentWatch struct{ object.Watch }

func (silentWatch) Next(ctx context.Context) (object.Update, error) {
	<-ctx.Done()
	return object.Update{}, ctx.Err()
}

// commit writes revisions of ten changes each.
func commit(m *cachertest.Memory, revisions int) {
	for i := range revisions {
		writes := map[object.Key][]byte{}
		for k := range 10 {
			writes[object.Key(strconv.Itoa(k))] = []byte(strconv.Itoa(i))
		}
		m.Commit(writes)
	}
}

// A slow store is asked for its history once too often, not four times, and what it has answered counts.
func TestFillOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		commit(m, 6000)
		s := &probedStore{Memory: m, slowest: m.Now() - 100}
		const window = 1000 // 100 revisions
		<-runQuietly(t, s, windowOf(window)).Ready()
		s.mu.Lock()
		defer s.mu.Unlock()
		if back := m.Now() - s.begin; s.probes != 3 || back != 200 {
			t.Errorf("got %d probes, and a fill from %d revisions back, want 3 and 200", s.probes, back)
		}
	})
}

// Changes that are newer than the revision of the fill say nothing about how far the window reaches back.
func TestFillWhileTheStoreChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		commit(m, 300)
		now := m.Now()
		s := &probedStore{Memory: m, asked: func() { commit(m, 100) }}
		<-runQuietly(t, s, windowOf(110)).Ready()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.floor >= now {
			t.Errorf("the fill of revision %d begins at %d", now, s.floor)
		}
	})
}
