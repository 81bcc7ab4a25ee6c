package cacher_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// encrypted is a store that decrypts a value "ID:text" only with the key of that id.
type encrypted struct {
	cacher.Store

	mu      sync.Mutex
	ids     map[uint32]bool // guarded by mu
	changed chan struct{}   // guarded by mu
}

func newEncrypted(m *cachertest.Memory) *encrypted {
	return &encrypted{Store: m, ids: map[uint32]bool{}, changed: make(chan struct{})}
}

func (s *encrypted) Has(id uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

func (s *encrypted) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *encrypted) Fingerprint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(slices.Sorted(maps.Keys(s.ids)))
}

// use replaces the available keys.
func (s *encrypted) use(ids ...uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = map[uint32]bool{}
	for _, id := range ids {
		s.ids[id] = true
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *encrypted) decrypt(records []object.Record) []object.Record {
	records = slices.Clone(records)
	for i := range records {
		r := &records[i]
		var id uint32
		if _, err := fmt.Sscanf(string(r.Value), "%d:", &id); err == nil && !s.Has(id) {
			r.Value, r.Undecryptable = nil, &object.UndecryptableError{KeyID: id, Missing: true}
		}
	}
	return records
}

func (s *encrypted) List(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) ([]object.Record, bool, error) {
	records, more, err := s.Store.List(ctx, at, scope, start, limit)
	return s.decrypt(records), more, err
}

func (s *encrypted) Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error) {
	stream, err := s.Store.Watch(ctx, scope, after, previous)
	return encryptedWatch{stream, s}, err
}

type encryptedWatch struct {
	object.Watch
	store *encrypted
}

func (s encryptedWatch) Next(ctx context.Context) (object.Update, error) {
	u, err := s.Watch.Next(ctx)
	u.Records = s.store.decrypt(u.Records)
	return u, err
}

// shown returns the epoch of a state, the number of values that it lacks, and its objects.
func shown(c *cacher.Cacher) string {
	s := c.State()
	all := []string{string(s.Position().Epoch), fmt.Sprint(s.Undecryptable())}
	for o := range s.Objects(object.Scope{}, "") {
		value := string(wire.Decode(o).Value)
		if o.Undecryptable() {
			value = "!"
		}
		all = append(all, string(o.Key)+"="+value)
	}
	return strings.Join(all, " ")
}

// A state that lacks values has an epoch of its own, and a complete state has the common
// epoch. Values and keys may arrive in any order.
func TestStatesThatLackAKeyHaveAnEpochOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		s := newEncrypted(m)
		s.use(1)
		m.Put("a", "1:a")
		m.Put("b", "2:b")
		c := run(t, m, func(cfg *cacher.Config) { cfg.Store, cfg.Keys, cfg.CheckInterval = s, s, time.Minute })
		<-c.Ready()
		want := func(want string) {
			t.Helper()
			time.Sleep(3 * time.Minute) // includes a self-check
			synctest.Wait()
			if got := shown(c); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		want("e1~[1] 1 a=1:a b=!")
		s.use(1, 3) // not the missing key
		want("e1~[1] 1 a=1:a b=!")
		s.use(1, 2, 3)
		want("e1 0 a=1:a b=2:b")

		// A value arrives by the watch.
		m.Put("c", "4:c")
		want("e1~[1 2 3] 1 a=1:a b=2:b c=!")
		m.Put("d", "5:d")
		want("e1~[1 2 3] 2 a=1:a b=2:b c=! d=!")
		s.use(1, 2, 3, 4) // one of the two missing keys
		want("e1~[1 2 3 4] 1 a=1:a b=2:b c=4:c d=!")
		s.use(1, 2, 3, 4, 5)
		want("e1 0 a=1:a b=2:b c=4:c d=5:d")

		// A value arrives by a relist.
		m.Change(func() { m.Quiet = true })
		now := m.Put("e", "6:e")
		m.Change(func() { m.Compacted, m.Quiet = now, false })
		want("e1~[1 2 3 4 5] 1 a=1:a b=2:b c=4:c d=5:d e=!")

		// A key arrives while the store is away.
		m.Change(func() { m.Down = object.ErrUnavailable })
		synctest.Wait()
		s.use(1, 2, 3, 4, 5, 6)
		m.Change(func() { m.Down = nil })
		want("e1 0 a=1:a b=2:b c=4:c d=5:d e=6:e")

		// After a key is removed, the values that were decrypted with it stay.
		s.use(6)
		want("e1 0 a=1:a b=2:b c=4:c d=5:d e=6:e")
		if n := c.Counts().Mismatches; n != 0 {
			t.Errorf("mismatches: got %d, want 0", n)
		}
	})
}
