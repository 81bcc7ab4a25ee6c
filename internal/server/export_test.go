package server

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// DrainClock is the clock of the drain.
type DrainClock = registry.DrainClock

// SetDrainClock makes the drain use a clock of the test.
func (s *Server) SetDrainClock(c DrainClock) { s.watches.SetDrainClock(c) }

// SetRequestPatience sets how long a client may take to send its request.
func (s *Server) SetRequestPatience(d time.Duration) { s.limits.RequestPatience = d }

// SetSlotTimes sets how long a request waits for a snapshot slot or for memory, and how
// long an unread message may hold a slot.
func (s *Server) SetSlotTimes(patience, lease time.Duration) {
	s.limits.Patience, s.limits.Lease = patience, lease
}

// AppliedCounts returns how often the server has counted the watches that have applied a
// revision.
func (s *Server) AppliedCounts() int64 { return s.watches.AppliedCounts() }

// UncheckedWrite returns a function that makes a put of a resource without rules, up to the call of the store.
func UncheckedWrite(ctx context.Context, resource *backend.Resource) func() error {
	w := overwritesOf(backend.Resources{resource.Name: resource})[resource.Name]
	ops := []object.Op{{Kind: object.OpPut, Key: "a", Seen: &object.Seen{}}}
	commit := object.Commit{Leases: make([]int64, 1), Deleted: make([]bool, 1)}
	write := func() (object.Commit, error) { return commit, nil }
	return func() error {
		_, err := w.commit(ctx, ops, history.Change{}, nil, write)
		return err
	}
}
