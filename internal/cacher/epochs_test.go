package cacher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// changing is a store that changes its epoch once: before or after a given call.
type changing struct {
	*cachertest.Memory
	call   string
	after  bool
	change func() // nil: the epoch has changed
}

func (s *changing) at(call string, after bool) {
	if change := s.change; change != nil && s.call == call && s.after == after {
		s.change = nil
		change()
	}
}

func (s *changing) Epoch(ctx context.Context) (object.Epoch, error) {
	s.at("Epoch", false)
	defer s.at("Epoch", true)
	return s.Memory.Epoch(ctx)
}

func (s *changing) Revision(ctx context.Context) (object.Revision, error) {
	s.at("Revision", false)
	defer s.at("Revision", true)
	return s.Memory.Revision(ctx)
}

func (s *changing) List(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) ([]object.Record, bool, error) {
	s.at("List", false)
	defer s.at("List", true)
	return s.Memory.List(ctx, at, scope, start, limit)
}

func (s *changing) Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error) {
	s.at("Watch", false)
	defer s.at("Watch", true)
	return s.Memory.Watch(ctx, scope, after, previous)
}

// No state mixes two epochs, whenever the store changes its epoch. The history of the
// new epoch contains the present revision of the old one.
func TestEpochsAreNotMixed(t *testing.T) {
	for _, step := range []string{"Epoch", "Revision", "List", "Watch"} {
		for when, after := range map[string]bool{"before ": false, "after ": true} {
			for what, relisting := range map[string]bool{"filling, ": false, "relisting, ": true} {
				for how, compacted := range map[string]object.Revision{"": 0, ", compacted": 25} {
					t.Run(what+when+step+how, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { changeEpoch(t, step, after, relisting, compacted) })
					})
				}
			}
		}
	}
}

func changeEpoch(t *testing.T, call string, after, relisting bool, compacted object.Revision) {
	m := cachertest.NewMemory()
	for _, key := range []object.Key{"a", "b", "old", "older", "oldest"} {
		m.Put(key, "1")
	}
	change := func() {
		m.Restart("e2")
		for range 30 {
			m.Put("new", "1")
		}
		m.Change(func() { m.Compacted = compacted })
	}
	store := &changing{Memory: m, call: call, after: after}
	if !relisting {
		store.change = change
	}
	c := run(t, m, func(cfg *cacher.Config) { cfg.Store = store })
	if relisting {
		<-c.Ready()
		synctest.Wait()
		m.Change(func() { m.Quiet = true })
		m.Put("old", "2")
		now := m.Put("old", "3")
		store.change = change
		m.Change(func() { m.Quiet, m.Compacted = false, now })
	}
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(time.Second) {
		s := c.State()
		if s == nil || s.Position().Epoch == "e2" {
			continue
		}
		if s.Get("new") != nil {
			t.Fatalf("the state at %v has an object of the new epoch", s.Position())
		}
	}
	if store.change != nil {
		t.Fatal("the epoch has not changed")
	}
	if got := c.State().Position(); got != (object.Position{Epoch: "e2", Revision: m.Now()}) {
		t.Errorf("position: got %v, want revision %d of e2", got, m.Now())
	}
	if diff := cmp.Diff(m.State(m.Now()), valuesOf(c.State())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
