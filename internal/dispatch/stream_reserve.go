package dispatch

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/work"
)

// reserveLocked asks the sink for the reservation that parked cursors wait for, on a goroutine of
// its own. The caller holds the mutex.
func (s *Stream) reserveLocked() {
	q := &s.catchUps
	if q.reserving != nil || q.parkedOpen == 0 || s.ended {
		return
	}
	isNew := true
	for _, c := range q.parked {
		isNew = isNew && (c.abandoned || c.messages == 0 && c.announced == nil)
	}
	ctx, cancel := context.WithCancel(s.contextLocked())
	q.reserving = cancel
	s.waits.Go(func() {
		err := work.Guard(func() error { return s.sink.Reserve(ctx, isNew) })
		s.reserved(ctx, err)
	})
}

// reserved continues with the parked cursors when Reserve has returned.
func (s *Stream) reserved(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.catchUps
	gaveUp := err != nil && ctx.Err() != nil
	q.reserving() // frees the context
	q.reserving = nil
	if gaveUp {
		s.reserveLocked() // other cursors may need it now
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
	q.holds = err == nil
	if !s.ended {
		s.inbox = append(s.inbox, func(time.Time) {
			for _, c := range failed {
				s.endCursor(c, &Ending{Reason: err})
			}
		})
		s.task.Ready()
	}
}

// checkReservation notes that the sink has lost the reservation. The worker calls it, and nobody else
// takes the reservation from the stream.
func (s *Stream) checkReservation() {
	if s.holdsReservation() && !s.sink.HoldsReservation() {
		s.mu.Lock()
		s.catchUps.holds = false
		s.mu.Unlock()
	}
}

// releaseReservation gives the reservation back if no cursor needs it. The worker calls it.
func (s *Stream) releaseReservation() {
	if s.parts != nil || s.directs != nil && s.directs.catchUps.made != nil {
		return
	}
	s.mu.Lock()
	q := &s.catchUps
	release := q.holds && q.transferring == 0 && !q.granted
	if release {
		q.holds = false
	}
	s.mu.Unlock()
	if release {
		s.sink.Release()
	}
}
