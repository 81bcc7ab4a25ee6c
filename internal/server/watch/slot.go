package watch

import (
	"context"
	"errors"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// snapshotSlot is the permission of a watch to send a RESET or a DELTA. The number of slots is
// limited. Only the handler of the watch uses its slot.
//
// A new watch waits for a slot before the server takes its snapshot. So the snapshot is no
// older than the slot, and a watch that waits holds no memory. A watch that needs a RESET or a
// DELTA later sends the beginning of the catch-up at once, and waits before the first part. A
// watch that needs longer than the lease to send a part loses the slot, and waits again before
// the next part.
type snapshotSlot struct {
	limits   *quota.Limiter
	patience time.Duration
	held     *quota.Reservation // nil: none
	lease    *time.Timer        // nil: nothing is being sent
}

func (s *snapshotSlot) init(l *quota.Limiter, bookmarkInterval time.Duration) {
	s.limits, s.patience = l, l.Patience
	if bookmarkInterval > 0 {
		// The client must not take the wait for a dead server.
		s.patience = min(s.patience, max(bookmarkInterval, quota.MinPatience))
	}
}

// reserve waits until the watch has a slot.
func (s *snapshotSlot) reserve(ctx context.Context) error {
	if s.held != nil {
		return nil
	}
	held, err := s.limits.SnapshotSlots.Acquire(ctx, quota.ClientOf(ctx), 1, s.patience)
	if errors.Is(err, quota.ErrTimeout) {
		return &apierr.LimitError{
			Name: apierr.MaxSnapshots, What: "catch-ups that are being sent", Limit: float64(s.limits.Snapshots), RetryAfter: quota.RetryDelay,
		}
	}
	s.held = held
	return err
}

// beginSend starts the lease, if the watch has a slot. The sender calls it before it sends a
// message.
func (s *snapshotSlot) beginSend() {
	if s.held != nil {
		s.lease = time.AfterFunc(s.limits.Lease, s.held.Release)
	}
}

// endSend ends the lease. The sender calls it when gRPC has accepted a message. After the last
// message of a catch-up, the watch keeps the slot until gRPC releases the fence of that message
// or another lease has passed, because the parts are in gRPC's buffers until then. Without a
// fence (nil) the watch returns the slot at once.
func (s *snapshotSlot) endSend(h *object.Header, fence *grpcmsg.WriteFence) {
	if s.lease != nil {
		if !s.lease.Stop() {
			s.held = nil
		}
		s.lease = nil
	}
	if h.Kind != object.Synced {
		return
	}
	held := s.held
	s.held = nil
	if held == nil || fence == nil {
		held.Release()
		return
	}
	lease := time.AfterFunc(s.limits.Lease, held.Release)
	fence.OnRelease(func() {
		lease.Stop()
		held.Release()
	})
}

// release returns the slot, if the watch has one.
func (s *snapshotSlot) release() {
	s.held.Release()
	s.held = nil
}
