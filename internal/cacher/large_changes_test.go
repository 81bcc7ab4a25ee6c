package cacher_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// narrow is a store whose watches cannot send large changes.
type narrow struct {
	*cachertest.Memory
	watches atomic.Int64
}

func (s *narrow) Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error) {
	s.watches.Add(1)
	stream, err := s.Memory.Watch(ctx, scope, after, previous)
	return narrowWatch{stream}, err
}

type narrowWatch struct{ object.Watch }

func (s narrowWatch) Next(ctx context.Context) (object.Update, error) {
	u, err := s.Watch.Next(ctx)
	for i := range u.Records {
		if len(u.Records[i].Value) > 100 {
			return object.Update{}, object.ErrAnswerTooLarge
		}
	}
	return u, err
}

// The cacher lists a change that the store cannot send, also at the start. While such changes go
// on, it does not list for each of them.
func TestChangesThatTheStoreCannotSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &narrow{Memory: cachertest.NewMemory()}
		large := strings.Repeat("x", 1000)
		s.Put("k", large)
		last := s.Put("k", "small")
		c := run(t, s.Memory, func(cfg *cacher.Config) { cfg.Store = s })
		if state := read(t, c, object.Consistency{}); state.Revision() != last {
			t.Fatalf("at the start: got revision %d, want %d", state.Revision(), last)
		}
		last = s.Put("k", large)
		if state := read(t, c, object.Consistency{}); string(wire.Decode(state.Get("k")).Value) != large {
			t.Errorf("after a large change at revision %d: got revision %d", last, state.Revision())
		}
		before := s.watches.Load()
		const changes = 6000
		for range changes {
			s.Put("k", large)
			time.Sleep(10 * time.Millisecond)
		}
		if n := s.watches.Load() - before; n > 50 {
			t.Errorf("got %d watches during %d changes in a minute, want a few", n, changes)
		}
		s.Put("k", "small")
		time.Sleep(10 * time.Second) // longer than the longest delay
		last = s.Put("k", "live")
		if state := read(t, c, object.Consistency{}); state.Revision() != last || !c.Following() {
			t.Errorf("afterwards: got revision %d, want %d", state.Revision(), last)
		}
	})
}
