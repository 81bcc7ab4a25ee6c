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
	stream  grpc.ServerStream
	session *session // notes what was sent
	tally   *tally
	trail   Trail   // nil: nobody follows writes
	flight  *flight // nil: nobody asks what is on its way
	turn    *turn   // to send catch-ups
	clock   watchClock
	id      func(*session) string
}

// send hands a message to gRPC. It waits while the client does not read.
func (o *outlet) send(m dispatch.Message) error {
	message := joined(m.Events, wire.AppendHeader(nil, m.Header))
	if o.flight != nil {
		o.flight.Ref()
		message = append(message, o.flight)
	}
	o.turn.before(&m.Header)
	o.session.sending()
	if err := o.hand(&m, message, message.size(), time.Now()); err != nil {
		return err
	}
	o.turn.after(&m.Header, o.flight)
	o.clock.sent(o.stream.Context(), &m.Header)
	return nil
}

// hand hands a message to gRPC. It waits if there is no room.
func (o *outlet) hand(m *dispatch.Message, message any, size int, now time.Time) error {
	if err := o.stream.SendMsg(message); err != nil {
		return err
	}
	before, first := o.session.sent(m, size)
	o.tally.note(m, size, first, now)
	if o.trail != nil && m.Header.Kind == object.Live && o.trail.Wants() {
		o.follow(m, before, size)
	}
	return nil
}
