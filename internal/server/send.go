package server

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// send hands a message to gRPC. It waits while the client does not read.
func (w *watching) send(m dispatch.Message) error {
	message := grpcmsg.Join(m.Events, wire.AppendHeader(nil, m.Header))
	flight := w.live.onItsWay()
	if flight != nil {
		flight.Ref()
		message = append(message, flight)
	}
	w.turn.before(&m.Header)
	w.session.sending()
	if err := w.stream.SendMsg(message); err != nil {
		return err
	}
	first := w.sent(&m, message.Size())
	w.tally.note(&m, 1, message.Size(), first, time.Now())
	w.turn.after(&m.Header, flight)
	w.hurry(&m.Header, first)
	return nil
}

// sent notes that a message was handed to gRPC, and reports whether it is the first.
func (w *watching) sent(m *dispatch.Message, size int) (first bool) {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	return w.note(m, size)
}

// note is sent for who has locked the session.
func (w *watching) note(m *dispatch.Message, size int) (first bool) {
	before, first := w.session.note(&m.Header, size)
	if trail := w.trail; trail != nil && m.Header.Kind == object.Live && trail.Wants() {
		w.follow(trail, m, before, size)
	}
	return first
}
