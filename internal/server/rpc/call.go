package rpc

import (
	"context"
	"strings"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Call is what the interceptors of one request leave for each other. They run one
// within the other: what an inner one finds out, such as who asks, is not in the
// context of an outer one.
type Call struct {
	Identity access.Identity // who asks, when that is known
	Resource string          // that is asked for
	unary    *exchange       // nil: of a watch, of which there are very many
}

// exchange is a request with one answer.
type exchange struct {
	request any // nil: it has not come
	answer  any // nil: there is none
}

type CallKey struct{}

// CallOf returns the call of a request.
func CallOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(CallKey{}).(*Call); ok {
		return c
	}
	return &Call{} // nobody will look at it
}

func (c *Call) exchange() *exchange {
	if c.unary == nil {
		return &exchange{}
	}
	return c.unary
}

// beginCall begins a call and has it audited when it is over.
func (i *Interceptors) beginCall(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := &Call{unary: &exchange{}}
	ctx := stream.Context()
	called := middleware.WrapServerStream(stream)
	called.WrappedContext = context.WithValue(ctx, CallKey{}, c)
	err := handler(srv, called)
	i.Record(ctx, c, info.FullMethod, err)
	return err
}

// limitRequests limits requests. It comes behind those who find out who asks.
func (i *Interceptors) limitRequests(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	CallOf(stream.Context()).Identity = access.From(stream.Context())
	limited := &requestStream{ServerStream: stream, limits: i.Limits, info: info}
	defer func() { limited.room.Release() }()
	return handler(srv, limited)
}

// requestStream is a stream whose requests are limited.
type requestStream struct {
	grpc.ServerStream
	limits *quota.Limiter
	info   *grpc.StreamServerInfo
	began  bool               // the first request was asked for
	room   *quota.Reservation // for the first request, and for others that come behind it
}

// RecvMsg implements grpc.ServerStream.
func (s *requestStream) RecvMsg(m any) (err error) {
	if !s.began {
		s.began = true
		if s.room, err = receive(s.limits, s.Context(), s.info); err != nil {
			return violationOr(s.Context(), err)
		}
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return violationOr(s.Context(), err)
	}
	arrived(s.Context())
	c := CallOf(s.Context())
	if named, ok := m.(interface{ GetResource() string }); ok {
		c.Resource = apierr.Clip(named.GetResource(), apierr.MaxEchoBytes)
	}
	switch {
	case IsUnary(s.info):
		c.exchange().request = m
	case !s.info.IsClientStream:
		s.room.Release() // a watch may last, and keeps little of its request
	}
	return checkSize(s.limits, m)
}

// violationOr returns the rule for whose violation the server has ended the stream, or else
// err. It is for the log: gRPC has already told the client that the stream has ended.
func violationOr(ctx context.Context, err error) error {
	c, ok := ctx.Value(cutoffKey{}).(*streamContext)
	if !ok || c.request == nil {
		return err
	}
	violation := c.request.Violation()
	if violation == nil {
		return err
	}
	return apierr.InvalidError{{Description: violation.Error()}}
}

// limitRate limits how often a client may ask. Whether the server is healthy can be asked
// at any time: who asks decides about its life.
func (i *Interceptors) limitRate(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !strings.HasPrefix(info.FullMethod, "/"+healthpb.Health_ServiceDesc.ServiceName+"/") {
		if err := i.Limits.AllowRequest(quota.ClientOf(stream.Context())); err != nil {
			return err
		}
	}
	return handler(srv, stream)
}

// streamBytes is what is counted for a stream over which many requests come, for
// as long as it lasts.
const streamBytes = 1 << 20

// receive takes room for a request that has begun to come, which must be given back.
// Nobody takes any for what is there already: it is small.
func receive(l *quota.Limiter, ctx context.Context, info *grpc.StreamServerInfo) (*quota.Reservation, error) {
	c, ok := ctx.Value(cutoffKey{}).(*streamContext)
	if !ok || c.request == nil {
		return nil, nil
	}
	size, packed, whole := c.request.AwaitSize(ctx)
	switch {
	case packed:
		size = int64(2 * l.RequestBytes) // more does not become a message
	case size > int64(l.RequestBytes):
		return nil, tooLarge(l, size)
	case whole:
		size = 0
	}
	if info.IsClientStream {
		size = max(size, streamBytes)
	}
	return l.ReserveRequest(ctx, size)
}

// request refuses a request that is too large. gRPC itself refuses those of more than
// twice the size, without a reason, before anybody else sees them.
func checkSize(l *quota.Limiter, m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return nil
	}
	if size := proto.Size(message); size > l.RequestBytes {
		return tooLarge(l, int64(size))
	}
	return nil
}

func tooLarge(l *quota.Limiter, size int64) error {
	return &apierr.LimitError{Reason: apierr.ReasonRequestTooLarge, What: "request", Limit: float64(l.RequestBytes), Size: int(size)}
}
