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
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// safe is a store that reads what is stored as "ID:text" only with the key of that id.
type safe struct {
	cacher.Store

	mu      sync.Mutex
	ids     map[uint32]bool // guarded by mu
	changed chan struct{}   // guarded by mu
}

func newSafe(m *cachertest.Memory) *safe {
	return &safe{Store: m, ids: map[uint32]bool{}, changed: make(chan struct{})}
}

func (s *safe) Has(id uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

func (s *safe) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *safe) Fingerprint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(slices.Sorted(maps.Keys(s.ids)))
}

// use exchanges the keys.
func (s *safe) use(ids ...uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = map[uint32]bool{}
	for _, id := range ids {
		s.ids[id] = true
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *safe) open(records []object.Record) []object.Record {
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

func (s *safe) List(ctx context.Context, at object.Revision, start object.Key, limit int) ([]object.Record, bool, error) {
	records, more, err := s.Store.List(ctx, at, start, limit)
	return s.open(records), more, err
}

func (s *safe) Watch(ctx context.Context, after object.Position) (object.Stream, error) {
	stream, err := s.Store.Watch(ctx, after)
	return safeStream{stream, s}, err
}

type safeStream struct {
	object.Stream
	safe *safe
}

func (s safeStream) Next(ctx context.Context) (object.Update, error) {
	u, err := s.Stream.Next(ctx)
	u.Records = s.safe.open(u.Records)
	return u, err
}

// shown returns the epoch of a state, how many values it lacks, and its objects.
func shown(c *cacher.Cacher) string {
	s := c.State()
	all := []string{string(s.Position().Epoch), fmt.Sprint(s.Undecryptable())}
	for o := range s.Objects(object.Scope{}, "") {
		value := string(o.Value)
		if o.Undecryptable {
			value = "!"
		}
		all = append(all, string(o.Key)+"="+value)
	}
	return strings.Join(all, " ")
}

// What lacks values for want of a key is never shown in the epoch that everybody has,
// and what does not is never shown in another, whichever way it comes about.
func TestStatesThatLackAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		s := newSafe(m)
		s.use(1)
		m.Put("a", "1:a")
		m.Put("b", "2:b")
		c := run(t, m, func(cfg *cacher.Config) { cfg.Store, cfg.Keys, cfg.CheckInterval = s, s, time.Minute })
		<-c.Ready()
		want := func(want string) {
			t.Helper()
			time.Sleep(3 * time.Minute) // an audit, too
			synctest.Wait()
			if got := shown(c); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		want("e1~[1] 1 a=1:a b=!")
		s.use(1, 3) // does not help
		want("e1~[1] 1 a=1:a b=!")
		s.use(1, 2, 3)
		want("e1 0 a=1:a b=2:b")

		// By the watch.
		m.Put("c", "4:c")
		want("e1~[1 2 3] 1 a=1:a b=2:b c=!")
		m.Put("d", "5:d")
		want("e1~[1 2 3] 2 a=1:a b=2:b c=! d=!")
		s.use(1, 2, 3, 4) // helps a little
		want("e1~[1 2 3 4] 1 a=1:a b=2:b c=4:c d=!")
		s.use(1, 2, 3, 4, 5)
		want("e1 0 a=1:a b=2:b c=4:c d=5:d")

		// By a relist.
		m.Change(func() { m.Quiet = true })
		now := m.Put("e", "6:e")
		m.Change(func() { m.Compacted, m.Quiet = now, false })
		want("e1~[1 2 3 4 5] 1 a=1:a b=2:b c=4:c d=5:d e=!")

		// While the store is away.
		m.Change(func() { m.Down = object.ErrUnavailable })
		synctest.Wait()
		s.use(1, 2, 3, 4, 5, 6)
		m.Change(func() { m.Down = nil })
		want("e1 0 a=1:a b=2:b c=4:c d=5:d e=6:e")

		// A key that is taken away takes nothing from what is known.
		s.use(6)
		want("e1 0 a=1:a b=2:b c=4:c d=5:d e=6:e")
		if n := c.Counts().Mismatches; n != 0 {
			t.Errorf("%d mismatches", n)
		}
	})
}
