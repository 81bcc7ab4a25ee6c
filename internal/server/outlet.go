package server

import (
	"context"
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

// send hands a message to gRPC. It waits while the client does not read. The context says
// who watches.
func (o *outlet) send(ctx context.Context, m dispatch.Message) error {
	message := joined(m.Events, wire.AppendHeader(nil, m.Header))
	if o.flight != nil {
		o.flight.Ref()
		message = append(message, o.flight)
	}
	o.turn.before(&m.Header)
	o.session.sending()
	if err := o.stream.SendMsg(message); err != nil {
		return err
	}
	first := o.sent(&m, message.size())
	o.tally.note(&m, 1, message.size(), first, time.Now())
	o.turn.after(&m.Header, o.flight)
	o.clock.sent(ctx, &m.Header)
	return nil
}

// sent notes that a message was handed to gRPC, and reports whether it is the first.
func (o *outlet) sent(m *dispatch.Message, size int) (first bool) {
	o.session.mu.Lock()
	defer o.session.mu.Unlock()
	return o.note(m, size)
}

// note is sent for who has locked the session.
func (o *outlet) note(m *dispatch.Message, size int) (first bool) {
	before, first := o.session.note(&m.Header, size)
	if o.trail != nil && m.Header.Kind == object.Live && o.trail.Wants() {
		o.follow(m, before, size)
	}
	return first
}
