package failover

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stream is an interceptor of streams. A stream ends with UNAVAILABLE when its member gets
// into a bad state and another one is in a good state.
func (m *Members) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c := &call{stream: true}
	sent := m.begin(ctx, c)
	s, err := open(sent, desc, cc, method, opts...)
	if err != nil {
		err = asUnavailable(sent, err)
		m.end(c, false)
		return nil, err
	}
	// A client that has cancelled its stream does not have to receive the end.
	context.AfterFunc(sent, func() { m.end(c, false) })
	return &movableStream{ClientStream: s, members: m, call: c, ctx: sent}, nil
}

// movableStream is a stream that ends when it should continue at another member.
type movableStream struct {
	grpc.ClientStream
	members *Members
	call    *call
	ctx     context.Context // of the stream
}

// RecvMsg implements [grpc.ClientStream].
func (s *movableStream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	if err == nil {
		s.members.answered(s.call)
		return nil
	}
	err = asUnavailable(s.ctx, err)
	s.members.end(s.call, false)
	return err
}

// asUnavailable returns the error of a call, which is UNAVAILABLE if Members has ended the call.
// Ctx is the context of the call.
func asUnavailable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errMoved) || errors.Is(cause, errLost) {
		return status.Error(codes.Unavailable, cause.Error())
	}
	return err
}
