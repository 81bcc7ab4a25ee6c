package server

import (
	"context"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// call is what the interceptors of one request leave for each other. They run one
// within the other: what an inner one finds out, such as who asks, is not in the
// context of an outer one.
type call struct {
	identity access.Identity // who asks, when that is known
	resource string          // that is asked for
	refused  error           // what to answer instead of what an interceptor of a library has made of it
	unary    *exchange       // nil: of a watch, of which there are very many
}

// exchange is a request with one answer.
type exchange struct {
	request any // nil: it has not come
	answer  any // nil: there is none
}

type callKey struct{}

// callOf returns the call of a request.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{} // nobody will look at it
}

func (c *call) exchange() *exchange {
	if c.unary == nil {
		return &exchange{}
	}
	return c.unary
}

// beginCall begins a call and has it audited when it is over.
func (s *Server) beginCall(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := &call{unary: &exchange{}}
	ctx := stream.Context()
	called := middleware.WrapServerStream(stream)
	called.WrappedContext = context.WithValue(ctx, callKey{}, c)
	err := handler(srv, called)
	s.auditCall(ctx, c, info.FullMethod, err)
	return err
}

// limitRequests limits requests. It comes behind those who find out who asks.
func (s *Server) limitRequests(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	callOf(stream.Context()).identity = access.From(stream.Context())
	limited := &requestStream{ServerStream: stream, limits: s.limits, info: info}
	defer func() { limited.room.giveBack() }()
	return handler(srv, limited)
}

// requestStream is a stream whose requests are limited.
type requestStream struct {
	grpc.ServerStream
	limits *limits
	info   *grpc.StreamServerInfo
	began  bool   // the first request was asked for
	room   *share // for the first request, and for others that come behind it
}

// RecvMsg implements grpc.ServerStream.
func (s *requestStream) RecvMsg(m any) (err error) {
	if !s.began {
		s.began = true
		if s.room, err = s.limits.receive(s.Context(), s.info); err != nil {
			return err
		}
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	arrived(s.Context())
	c := callOf(s.Context())
	if named, ok := m.(interface{ GetResource() string }); ok {
		c.resource = apierr.Clip(named.GetResource(), apierr.MaxEchoBytes)
	}
	switch {
	case isUnary(s.info):
		c.exchange().request = m
	case !s.info.IsClientStream:
		s.room.giveBack() // a watch may last, and keeps little of its request
	}
	return s.limits.request(m)
}

// request refuses a request that is too large. gRPC itself refuses those of more than
// twice the size, without a reason, before anybody else sees them.
func (l *limits) request(m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return nil
	}
	if size := proto.Size(message); size > l.RequestBytes {
		return l.tooLarge(int64(size))
	}
	return nil
}

func (l *limits) tooLarge(size int64) error {
	return &apierr.LimitError{Reason: apierr.ReasonRequestTooLarge, What: "request", Limit: float64(l.RequestBytes), Size: int(size)}
}
