package watch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// Waiting describes the oldest event that waits for a watch.
type Waiting struct {
	after   object.Position // position of the watch
	arrived time.Time       // when the event arrived, or a later time if that is unknown
}

// Observe returns what is known about the oldest event that waits after a position, and
// completes the lag of the watch. It returns nil if no event waits. Nil means that nothing was
// known before.
//
// When the oldest waiting event has left the window, the window no longer has the time of its
// arrival. So the earliest time that was seen there is kept. The lag therefore grows until the
// position changes, although the window moves on.
func (w *Waiting) Observe(after object.Position, backlog dispatch.Backlog, lag *backend.Lag) *Waiting {
	arrived := time.Now().Add(-lag.Waited)
	switch {
	case backlog.Events == 0:
		return nil
	case w != nil && w.after == after && lag.IsMinimum && w.arrived.Before(arrived):
		lag.Waited = time.Since(w.arrived)
		return w
	case w == nil:
		w = new(Waiting)
	}
	*w = Waiting{after: after, arrived: arrived}
	return w
}
