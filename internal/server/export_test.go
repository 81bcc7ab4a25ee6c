package server

import "time"

// DrainClock is the time by which watches are ended.
type DrainClock = drainClock

// SetDrainClock has watches be ended by a clock of the test.
func (s *Server) SetDrainClock(c DrainClock) { s.drain.clock = c }

// SetRequestPatience says how long a request may take to come.
func (s *Server) SetRequestPatience(d time.Duration) { s.limits.RequestPatience = d }

// SetTurns says how long somebody waits for a turn, and how long a message may keep
// the place of others.
func (s *Server) SetTurns(patience, lease time.Duration) {
	s.limits.Patience, s.limits.Lease = patience, lease
}

// Lanes returns how many connections have watches.
func (s *Server) Lanes() int {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	return len(s.lanes.of)
}
