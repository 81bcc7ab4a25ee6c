package rpc

import (
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/work"
)

// unaryMethod serves the calls of a method with one request and one answer. Its steps are those of a
// stream, but they call each other without interceptors between them: a call from memory costs so
// little that each of those would show.
type unaryMethod struct {
	*Interceptors
	info   *grpc.StreamServerInfo
	handle grpc.MethodHandler
	writes bool // see growStackForWrite
}

// serve is the handler of the method.
func (m *unaryMethod) serve(implementation any, stream grpc.ServerStream) error {
	if m.writes {
		growStackForWrite(0)
	} else {
		growStack(0)
	}
	ctx, began := stream.Context(), time.Now()
	err := m.Conclude(ctx, m.info.FullMethod, began, m.answer(implementation, stream))
	concluded(ctx)
	return err
}

// answer reads the request and sends the answer. A panic of the handler is an error.
func (m *unaryMethod) answer(implementation any, stream grpc.ServerStream) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = work.Panicked(p)
		}
	}()
	admitted, err := m.admit(stream, m.info)
	if err != nil {
		return err
	}
	defer admitted.release()
	answer, err := m.handle(implementation, admitted.ctx, admitted.RecvMsg, nil)
	m.noteSlow(admitted)
	if err != nil {
		return err
	}
	CallOf(admitted.ctx).answer = answer // for the audit log
	return stream.SendMsg(answer)
}

// noteSlow logs the request if it has taken too long since it arrived.
func (m *unaryMethod) noteSlow(s *requestStream) {
	if c := CallOf(s.ctx); c.request != nil {
		m.Slow.Note(s.ctx, "request", time.Since(s.arrived), c.request)
	}
}
