package server

import (
	"context"
	"errors"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// turn is the place of a watch among the catch-ups that are being sent. It belongs to
// the goroutine of the watch.
//
// A watch that begins with nothing waits for it before its snapshot is begun: so the
// snapshot is as new as the turn, and nothing is held while it waits. One that turns
// out to need a DELTA or a RESET later is told so at once, and waits before the first
// part. Whoever does not take a part within the lease has no place any more, and
// waits again before the next one.
type turn struct {
	limits   *limits
	patience time.Duration
	due      bool        // a RESET or a DELTA is under way
	share    *share      // nil: none
	lease    *time.Timer // nil: nothing is being sent
}

func (t *turn) init(l *limits, w *watch) {
	t.limits, t.patience = l, l.patience
	if every := w.options.BookmarkInterval; every > 0 {
		t.patience = min(t.patience, max(every, leastTurnPatience))
	}
	t.due = w.after == nil && !w.fromNow
}

// wait waits for the turn in the context of the watch, if a catch-up is under way that has none.
func (t *turn) wait(ctx context.Context) error {
	if !t.due || t.share != nil {
		return nil
	}
	s, err := t.limits.snapshots.take(ctx, clientOf(ctx), 1, t.patience)
	if errors.Is(err, errNoTurn) {
		return &limitError{
			reason: ReasonTooManySnapshots, what: "snapshots that are being sent", limit: float64(t.limits.Snapshots), after: placeDelay,
		}
	}
	t.share = s
	return err
}

// before is called before a message is sent.
func (t *turn) before(h *object.Header) {
	if h.Kind == object.CatchUpBegin {
		t.due = h.CatchUp != object.Replay
	}
	if t.share != nil {
		t.lease = time.AfterFunc(t.limits.lease, t.share.giveBack)
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
		place.giveBack()
		return
	}
	lease := time.AfterFunc(t.limits.lease, place.giveBack)
	f.whenOver(func() {
		lease.Stop()
		place.giveBack()
	})
}

// end gives the place back.
func (t *turn) end() {
	t.share.giveBack()
	t.share = nil
}
