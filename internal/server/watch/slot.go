package watch

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// snapshotSlot is the permission of a watch to send a RESET or a DELTA. The number of slots is
// limited. Only the handler of a watch calls the methods.
//
// A watch that begins with a snapshot waits for a slot before it announces the snapshot, so
// it holds no part of the snapshot while it waits. A watch that resumes or has fallen behind
// announces its RESET or DELTA at once and waits before the first part. A small DELTA needs
// no slot. If one message of the catch-up takes longer to send than the lease, the watch
// loses the slot. It then waits for another slot before the next part.
type snapshotSlot struct {
	limits   *quota.Limiter
	patience time.Duration      // how long reserve waits at most
	held     *quota.Reservation // nil: the watch has no slot
	lease    *time.Timer        // takes the slot away; nil: no message is being sent
}

func (s *snapshotSlot) init(l *quota.Limiter, bookmarkInterval time.Duration) {
	s.limits, s.patience = l, l.SnapshotPatience(bookmarkInterval)
}

// reserve waits until the watch has a slot. Its errors are those of [quota.Limiter.SnapshotSlot].
func (s *snapshotSlot) reserve(ctx context.Context, isNew bool) (err error) {
	if s.held == nil {
		s.held, err = s.limits.SnapshotSlot(ctx, s.patience, isNew)
	}
	return err
}

// beginSend starts the lease, if the watch has a slot. The sender calls beginSend before it
// sends a message.
func (s *snapshotSlot) beginSend() {
	if s.held != nil {
		s.lease = time.AfterFunc(s.limits.Lease, s.held.Release)
	}
}

// endSend ends the lease. The sender calls endSend when gRPC has accepted a message.
//
// After the last message of a catch-up, gRPC may still hold the parts in its buffers. So the
// watch keeps the slot until gRPC releases the fence of that message, but not longer than one
// more lease. If the fence is nil, the watch returns the slot at once.
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
	s.limits.ReleaseWritten(held, fence.OnRelease)
}

// release returns the slot, if the watch has one.
func (s *snapshotSlot) release() {
	s.held.Release()
	s.held = nil
}
