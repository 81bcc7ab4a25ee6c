package server

import (
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// outlet is where the messages of a watch go.
type outlet struct {
	tally *tally

	// A worker looks at what follows with each message; see watching.

	stream grpc.ServerStream // as gRPC has it
	trail  Trail             // nil: nobody follows writes
}

// send hands a message to gRPC. It waits while the client does not read.
func (w *watching) send(m dispatch.Message) error {
	message := joined(m.Events, wire.AppendHeader(nil, m.Header))
	flight := w.live.onItsWay()
	if flight != nil {
		flight.Ref()
		message = append(message, flight)
	}
	w.turn.before(&m.Header)
	w.session.sending()
	if err := w.outlet.stream.SendMsg(message); err != nil {
		return err
	}
	first := w.sent(&m, message.size())
	w.outlet.tally.note(&m, 1, message.size(), first, time.Now())
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
	if trail := w.outlet.trail; trail != nil && m.Header.Kind == object.Live && trail.Wants() {
		w.follow(trail, m, before, size)
	}
	return first
}
