package server

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// follow tells the trail of the resource about a live message.
func (w *watching) follow(trail backend.WriteTracer, m *dispatch.Message, after object.Revision, size int) {
	if w.sender.watcher == nil {
		return
	}
	trail.Delivered(backend.Delivery{
		Watch: w.sender.stream.Context(), Watcher: w.server.sessions.id(&w.session), Peer: w.session.peer,
		After: after, Upto: m.Header.Position.Revision, Shows: w.sender.watcher.Shows,
		Events: m.Count, Bytes: size, Arrived: m.Arrived, Sent: time.Now(),
	})
}
