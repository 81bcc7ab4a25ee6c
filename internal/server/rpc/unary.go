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

// callStackBytes is about how much stack a unary call needs below its handler. With the frames of gRPC
// above it, a stack of 8 KiB is enough. A write to an embedded etcd needs writeStackBytes: it is
// encoded for the log of etcd below its handler.
const (
	callStackBytes  = 4 << 10
	writeStackBytes = 8 << 10
)

// growStack makes room on the stack for a unary call. gRPC starts a goroutine for each call, whose
// stack is small and is copied each time that it doubles. Here it grows once, while there is little
// to copy. The result has no meaning.
//
//go:noinline
func growStack(i int) byte {
	var room [callStackBytes]byte
	room[i] = 1
	return room[i/2]
}

// growStackForWrite is growStack for a write.
//
//go:noinline
func growStackForWrite(i int) byte {
	var room [writeStackBytes]byte
	room[i] = 1
	return room[i/2]
}
