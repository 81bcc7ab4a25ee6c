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

// turning is a store that becomes another one at a step of its reader, once: before
// the step or behind it.
type turning struct {
	*cachertest.Memory
	step   string
	behind bool
	turn   func() // nil: it has turned
}

func (s *turning) at(step string, behind bool) {
	if turn := s.turn; turn != nil && s.step == step && s.behind == behind {
		s.turn = nil
		turn()
	}
}

func (s *turning) Epoch(ctx context.Context) (object.Epoch, error) {
	s.at("Epoch", false)
	defer s.at("Epoch", true)
	return s.Memory.Epoch(ctx)
}

func (s *turning) Revision(ctx context.Context) (object.Revision, error) {
	s.at("Revision", false)
	defer s.at("Revision", true)
	return s.Memory.Revision(ctx)
}

func (s *turning) List(ctx context.Context, at object.Revision, start object.Key, limit int) ([]object.Record, bool, error) {
	s.at("List", false)
	defer s.at("List", true)
	return s.Memory.List(ctx, at, start, limit)
}

func (s *turning) Watch(ctx context.Context, after object.Position) (object.Stream, error) {
	s.at("Watch", false)
	defer s.at("Watch", true)
	return s.Memory.Watch(ctx, after)
}

// Two histories are not mixed under one epoch, whenever the store becomes another
// one, with revisions that go on where the others ended, or higher.
func TestAnotherEpochAtAnyStep(t *testing.T) {
	for _, step := range []string{"Epoch", "Revision", "List", "Watch"} {
		for when, behind := range map[string]bool{"before ": false, "behind ": true} {
			for what, relisting := range map[string]bool{"filling, ": false, "relisting, ": true} {
				for how, compacted := range map[string]object.Revision{"": 0, ", compacted": 25} {
					t.Run(what+when+step+how, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { turn(t, step, behind, relisting, compacted) })
					})
				}
			}
		}
	}
}

func turn(t *testing.T, step string, behind, relisting bool, compacted object.Revision) {
	m := cachertest.NewMemory()
	for _, key := range []object.Key{"a", "b", "old", "older", "oldest"} {
		m.Put(key, "1")
	}
	another := func() {
		m.Restart("e2")
		for range 30 {
			m.Put("new", "1")
		}
		m.Change(func() { m.Compacted = compacted })
	}
	store := &turning{Memory: m, step: step, behind: behind}
	if !relisting {
		store.turn = another
	}
	c := run(t, m, func(cfg *cacher.Config) { cfg.Store = store })
	if relisting {
		<-c.Ready()
		synctest.Wait()
		m.Change(func() { m.Quiet = true })
		m.Put("old", "2")
		now := m.Put("old", "3")
		store.turn = another
		m.Change(func() { m.Quiet, m.Compacted = false, now })
	}
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(time.Second) {
		s := c.State()
		if s == nil || s.Position().Epoch == "e2" {
			continue
		}
		if s.Get("new") != nil {
			t.Fatalf("at %v there is an object of the new epoch", s.Position())
		}
	}
	if store.turn != nil {
		t.Fatal("nothing has happened")
	}
	if got := c.State().Position(); got != (object.Position{Epoch: "e2", Revision: m.Now()}) {
		t.Errorf("at %v", got)
	}
	if diff := cmp.Diff(m.State(m.Now()), valuesOf(c.State())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
