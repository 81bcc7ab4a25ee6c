package subscribe

import (
	"context"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// slot is the permission of a stream to send RESETs and DELTAs. Their number is limited. A stream
// that has one sends the catch-ups of all its watches. If its client takes longer than the lease to
// read a part, the stream loses the slot, and waits for another one before the next part.
type slot struct {
	limits  *quota.Limiter
	request context.Context // of the RPC; names the client

	mu       sync.Mutex
	interval time.Duration      // guarded by mu: the shortest bookmark interval of the watches; 0: none has one
	holds    bool               // guarded by mu
	held     *quota.Reservation // guarded by mu; nil: the number of slots is not limited
	lease    *time.Timer        // guarded by mu: takes the slot away; nil: no part is being sent
	closed   bool               // guarded by mu: the stream has ended
}

// expect records that a watch with the bookmark interval may wait for the slot.
func (s *slot) expect(interval time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if interval > 0 && (s.interval == 0 || interval < s.interval) {
		s.interval = interval
	}
}

// reserve waits for the slot. Its errors are those of [quota.Limiter.SnapshotSlot].
func (s *slot) reserve(ctx context.Context, isNew bool) error {
	s.mu.Lock()
	patience := s.limits.SnapshotPatience(s.interval)
	s.mu.Unlock()
	held, err := s.limits.SnapshotSlot(requestContext{ctx, s.request}, patience, isNew)
	if err != nil {
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

// isHeld reports whether the stream has the slot.
func (s *slot) isHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

// beginPart starts the lease: a part is about to be sent.
func (s *slot) beginPart() {
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

// endPart ends the lease: the stream has room again.
func (s *slot) endPart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLease()
}

// release gives the slot back when gRPC has written the parts, for which onWritten calls a
// function, but not later than after one more lease.
func (s *slot) release(onWritten func(func())) {
	s.mu.Lock()
	s.stopLease()
	held := s.held
	s.holds, s.held = false, nil
	s.mu.Unlock()
	if held != nil {
		s.limits.ReleaseWritten(held, onWritten)
	}
}

// close gives the slot back at the end of the stream.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.giveBack()
}

// giveBack is called with mu held.
func (s *slot) giveBack() {
	s.stopLease()
	s.held.Release()
	s.holds, s.held = false, nil
}

// stopLease is called with mu held.
func (s *slot) stopLease() {
	if s.lease != nil {
		s.lease.Stop()
		s.lease = nil
	}
}

// requestContext ends with a context, and has the values of a request.
type requestContext struct {
	context.Context
	request context.Context
}

// Value implements [context.Context].
func (c requestContext) Value(key any) any { return c.request.Value(key) }
