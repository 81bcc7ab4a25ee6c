package server

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/server/watch"
)

// DrainClock is the time by which watches are ended.
type DrainClock = watch.DrainClock

// SetDrainClock has watches be ended by a clock of the test.
func (s *Server) SetDrainClock(c DrainClock) { s.watches.SetDrainClock(c) }

// SetRequestPatience says how long a request may take to come.
func (s *Server) SetRequestPatience(d time.Duration) { s.limits.RequestPatience = d }

// SetTurns says how long somebody waits for a turn, and how long a message may keep
// the place of others.
func (s *Server) SetTurns(patience, lease time.Duration) {
	s.limits.Patience, s.limits.Lease = patience, lease
}

// Queues returns the number of send queues of connections that have watches.
func (s *Server) Queues() int { return s.watches.Queues() }
