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

// snapshotSlot is the slot of a watch among the snapshots and differences that are being
// sent at once. It belongs to the handler of the watch.
//
// A newcomer waits for a slot before its snapshot is begun, so the snapshot is as new as
// the slot, and waiting holds no memory. A watch that needs a DELTA or a RESET later
// announces it at once and waits before the first part. A watch that does not send a part
// within the lease loses the slot and waits again before the next part.
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
			Name: apierr.MaxSnapshots, What: "snapshots that are being sent", Limit: float64(s.limits.Snapshots), RetryAfter: quota.RetryDelay,
		}
	}
	s.held = held
	return err
}

// beginSend is called before a message is sent.
func (s *snapshotSlot) beginSend() {
	if s.held != nil {
		s.lease = time.AfterFunc(s.limits.Lease, s.held.Release)
	}
}

// endSend is called when gRPC has accepted a message. The last message of a catch-up releases
// the slot when its fence is released, or after a lease: the parts of many snapshots are in
// the buffers of gRPC until then. The fence may be nil.
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
