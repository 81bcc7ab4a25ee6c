package dispatch

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/work"
)

// acquireSlotLocked asks the sink for the slot that parked cursors wait for, on a goroutine of
// its own. The caller holds the mutex.
func (s *Stream) acquireSlotLocked() {
	q := &s.catchUps
	if q.acquiring != nil || q.parkedOpen == 0 || s.ended {
		return
	}
	isNew := true
	for _, c := range q.parked {
		isNew = isNew && (c.abandoned || c.messages == 0 && c.announced == nil)
	}
	ctx, cancel := context.WithCancel(s.contextLocked())
	q.acquiring = cancel
	s.waits.Go(func() {
		err := work.Guard(func() error { return s.sink.AcquireSlot(ctx, isNew) })
		s.slotAcquired(ctx, err)
	})
}

// slotAcquired continues with the parked cursors when AcquireSlot has returned.
func (s *Stream) slotAcquired(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.catchUps
	gaveUp := err != nil && ctx.Err() != nil
	q.acquiring() // frees the context
	q.acquiring = nil
	if gaveUp {
		s.acquireSlotLocked() // other cursors may need it now
		return
	}
	var failed []*cursor
	for _, c := range q.parked {
		switch {
		case c.abandoned:
			continue
		case err == nil && c.direct != nil:
			s.inbox = append(s.inbox, func(time.Time) { c.direct.lane.waiting = append(c.direct.lane.waiting, c) })
		case err == nil:
			q.waiting = append(q.waiting, c)
		default:
			q.setTransfersLocked(c, false)
			failed = append(failed, c)
		}
		q.unparkLocked(c)
	}
	q.parked = nil
	q.holdsSlot = err == nil
	if !s.ended {
		s.inbox = append(s.inbox, func(time.Time) {
			for _, c := range failed {
				s.endCursor(c, &Ending{Reason: err})
			}
		})
		s.task.Ready()
	}
}

// checkSlot notes that the sink has lost the slot. The worker calls it, and nobody else
// takes the slot from the stream.
func (s *Stream) checkSlot() {
	if s.holdsSlot() && !s.sink.HoldsSlot() {
		s.mu.Lock()
		s.catchUps.holdsSlot = false
		s.mu.Unlock()
	}
}

// releaseSlot gives the slot back if no cursor needs it. The worker calls it.
func (s *Stream) releaseSlot() {
	if s.parts != nil || s.directs != nil && s.directs.catchUps.made != nil {
		return
	}
	s.mu.Lock()
	q := &s.catchUps
	release := q.holdsSlot && q.transferring == 0 && !q.granted
	if release {
		q.holdsSlot = false
	}
	s.mu.Unlock()
	if release {
		s.sink.ReleaseSlot()
	}
}
