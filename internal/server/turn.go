package server

import (
	"context"
	"errors"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// turn is the place of a watch among the catch-ups that are being sent. It belongs to
// the handler of the watch, and to what that does aside.
//
// A watch that begins with nothing waits for it before its snapshot is begun: so the
// snapshot is as new as the turn, and nothing is held while it waits. One that turns
// out to need a DELTA or a RESET later is told so at once, and waits before the first
// part. Whoever does not take a part within the lease has no place any more, and
// waits again before the next one.
type turn struct {
	limits   *quota.Limiter
	patience time.Duration
	due      bool               // a RESET or a DELTA is under way
	share    *quota.Reservation // nil: none
	asked    *quota.Reservation // nil: none is waited for
	failure  error              // of waiting
	lease    *time.Timer        // nil: nothing is being sent
}

func (t *turn) init(l *quota.Limiter, w *request.Watch) {
	t.limits, t.patience = l, l.Patience
	if every := w.Options.BookmarkInterval; every > 0 {
		t.patience = min(t.patience, max(every, quota.MinPatience))
	}
	t.due = w.After == nil && !w.FromNow
}

// has reports whether the watch may go on: if a catch-up is under way it needs a place. If
// it has to be waited for, the watch has asked for it.
func (t *turn) has(ctx context.Context) bool {
	if !t.due || t.share != nil || t.failure != nil {
		return true
	}
	s := t.limits.SnapshotSlots.Reserve(quota.ClientOf(ctx), 1)
	if s.Granted() {
		t.share = s
		return true
	}
	t.asked = s
	return false
}

// wait waits for the place that was asked for, in the context of the watch.
func (t *turn) wait(ctx context.Context) {
	s := t.asked
	t.asked = nil
	switch err := s.Wait(ctx, t.patience); {
	case err == nil:
		t.share = s
	case errors.Is(err, quota.ErrTimeout):
		t.failure = &apierr.LimitError{
			Reason: apierr.ReasonTooManySnapshots, What: "snapshots that are being sent", Limit: float64(t.limits.Snapshots), RetryAfter: quota.RetryDelay,
		}
	default:
		t.failure = err
	}
}

// before is called before a message is sent.
func (t *turn) before(h *object.Header) {
	if h.Kind == object.CatchUpBegin {
		t.due = h.CatchUp != object.Replay
	}
	if t.share != nil {
		t.lease = time.AfterFunc(t.limits.Lease, t.share.Release)
	}
}

// after is called when gRPC has taken the message, and told what says when it has left
// for the buffer of the connection; nil: nothing does. The place is kept until then, but
// for no longer than a lease: what many are sent at once is in those buffers.
func (t *turn) after(h *object.Header, f *flight) {
	if t.lease != nil {
		if !t.lease.Stop() {
			t.share = nil
		}
		t.lease = nil
	}
	if h.Kind != object.Synced {
		return
	}
	t.due = false
	place := t.share
	t.share = nil
	if place == nil || f == nil {
		place.Release()
		return
	}
	lease := time.AfterFunc(t.limits.Lease, place.Release)
	f.whenOver(func() {
		lease.Stop()
		place.Release()
	})
}

// end gives the place back.
func (t *turn) end() {
	if t.asked != nil && !t.asked.Cancel() {
		t.asked.Release()
	}
	t.share.Release()
	t.share = nil
}
