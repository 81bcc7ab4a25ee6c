package server

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// hurry notes that a message was handed to the network, and reports a watch that was slow
// to begin, or to catch up. Most messages are live ones, and of no interest here.
func (w *watching) hurry(h *object.Header, first bool) {
	switch {
	case first:
		w.tookSince("first message")
	case h.Kind == object.CatchUpBegin:
		w.began = time.Since(w.session.since)
	case h.Kind == object.Synced:
		w.tookSince("catch-up")
	}
}

func (w *watching) tookSince(what string) {
	if took := time.Since(w.session.since) - w.began; w.server.slow.IsSlow(took) {
		w.server.slow.Note(w.ends.Context, what, took, w.session.request.request())
	}
}
