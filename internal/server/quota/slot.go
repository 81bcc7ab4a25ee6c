package quota

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Slot is the permission of a stream to send RESETs and DELTAs. Their number is limited. A stream that
// has a slot sends the catch-ups of all its watches.
//
// A watch that begins with a snapshot waits for the slot before it announces the snapshot, so it holds
// no part of the snapshot while it waits. A watch that resumes or has fallen behind announces its
// RESET or DELTA at once and waits before the first part. A small DELTA needs no slot. If the client
// takes longer than the lease to read a part, the stream loses the slot, and waits for another one
// before the next part.
type Slot struct {
	limits *Limiter
	client Client

	mu       sync.Mutex
	interval time.Duration // guarded by mu: the shortest bookmark interval of the watches; 0: none has one
	holds    bool          // guarded by mu
	held     *Reservation  // guarded by mu; nil: the number of slots is not limited
	lease    *time.Timer   // guarded by mu: takes the slot away; nil: no part is being sent
	closed   bool          // guarded by mu: the stream has ended
}

// Init sets the client of the stream.
func (s *Slot) Init(l *Limiter, c Client) { s.limits, s.client = l, c }

// Expect records that a watch with the bookmark interval may wait for the slot.
func (s *Slot) Expect(interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if interval > 0 && (s.interval == 0 || interval < s.interval) {
		s.interval = interval
	}
}

// Acquire waits for the slot. It returns an [apierr.LimitError] if the wait takes too long, and at once
// if the watches are new and too many new watches already wait. Watches that have begun are never turned
// away like that: if they ended, their client would only begin new ones.
func (s *Slot) Acquire(ctx context.Context, isNew bool) error {
	most := 0
	if isNew {
		most = s.limits.WaitingSnapshots
	}
	held, err := s.limits.SnapshotSlots.AcquireOrRefuse(ctx, s.client, 1, s.patience(), most)
	switch {
	case errors.Is(err, errTimeout):
		return &apierr.LimitError{
			Name: apierr.MaxSnapshots, What: "catch-ups that are being sent", Limit: float64(s.limits.Snapshots), RetryAfter: retryDelay,
		}
	case errors.Is(err, errCrowded):
		return &apierr.LimitError{
			Name: apierr.MaxWaitingSnapshots, What: "new watches that wait for their snapshot", Limit: float64(most), RetryAfter: retryDelay,
		}
	case err != nil:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		held.Release()
		return context.Canceled
	}
	s.holds, s.held = true, held
	return nil
}

// patience returns how long Acquire waits at most: a client that gets no message for too long takes
// the server for dead.
func (s *Slot) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interval == 0 {
		return s.limits.Patience
	}
	return min(s.limits.Patience, max(s.interval, minPatience))
}

// IsHeld reports whether the stream has the slot.
func (s *Slot) IsHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

// BeginPart starts the lease: a part is about to be sent.
func (s *Slot) BeginPart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil || s.lease != nil {
		return
	}
	var lease *time.Timer
	lease = time.AfterFunc(s.limits.Lease, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lease == lease {
			s.giveBack()
		}
	})
	s.lease = lease
}

// EndPart ends the lease: the stream has room again.
func (s *Slot) EndPart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLease()
}

// Release gives the slot back when gRPC has written the parts, for which onWritten calls a
// function, but not later than after one more lease.
func (s *Slot) Release(onWritten func(func())) {
	s.mu.Lock()
	s.stopLease()
	held := s.held
	s.holds, s.held = false, nil
	s.mu.Unlock()
	if held == nil {
		return
	}
	lease := time.AfterFunc(s.limits.Lease, held.Release)
	onWritten(func() {
		lease.Stop()
		held.Release()
	})
}

// Close gives the slot back at the end of the stream.
func (s *Slot) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.giveBack()
}

// giveBack is called with mu held.
func (s *Slot) giveBack() {
	s.stopLease()
	s.held.Release()
	s.holds, s.held = false, nil
}

// stopLease is called with mu held.
func (s *Slot) stopLease() {
	if s.lease != nil {
		s.lease.Stop()
		s.lease = nil
	}
}
