package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Call carries what inner interceptors find out to outer ones, such as the identity of the
// caller for the audit log.
type Call struct {
	Identity access.Identity // of the caller, once it is known
	Resource string          // that the request names
	unary    *exchange       // nil for watches, which are many and do not need it
}

// exchange is a unary request and its response.
type exchange struct {
	request any // nil: it has not been read
	answer  any // nil: there is none
}

// callKey is the key of a *Call in the context of a request.
type callKey struct{}

// CallOf returns the call of a request. It is a part of the context that [WithStreamContext] has made.
func CallOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{} // a discarded one
}

func (c *Call) exchange() *exchange {
	if c.unary == nil {
		return &exchange{}
	}
	return c.unary
}

// beginCall turns the error of a call into a status when it ends, and records it in the audit log.
func (i *Interceptors) beginCall(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := CallOf(stream.Context())
	c.unary = &exchange{}
	err := i.Finish(stream.Context(), handler(srv, Receiving{stream}))
	i.Record(stream.Context(), c, info.FullMethod, err)
	return err
}

// limitRequests limits the memory and the size of requests. The caller is already known.
func (i *Interceptors) limitRequests(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	CallOf(stream.Context()).Identity = access.From(stream.Context())
	limited := &requestStream{ServerStream: stream, limits: i.Limits, info: info}
	defer func() { limited.memory.Release() }()
	return handler(srv, limited)
}

// requestStream is a stream whose requests are limited.
type requestStream struct {
	grpc.ServerStream
	limits *quota.Limiter
	info   *grpc.StreamServerInfo
	began  bool               // memory for the first request was reserved
	memory *quota.Reservation // for the first request, and later ones of the same stream
}

// RecvMsg implements grpc.ServerStream.
func (s *requestStream) RecvMsg(m any) (err error) {
	if !s.began {
		s.began = true
		if err := beginReading(s.Context()); err != nil {
			return err
		}
		s.memory, err = receive(s.limits, s.Context(), s.info)
		if err := violationOr(s.Context(), err); err != nil {
			return err // gRPC would send another status
		}
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		s.memory.Release()
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
		s.memory.Release() // a watch lasts long and keeps little of its request
	default:
		// A registry knows the watches, and examines them when access changes. Other client streams
		// are checked with each message.
		if err := PassOf(s.Context()).Check(); err != nil {
			return err
		}
	}
	return checkSize(s.limits, m)
}

// violationOr returns an error with the violation for which the server has ended the stream, or
// else err. The error is for the log, because gRPC has already sent its status to the client.
func violationOr(ctx context.Context, err error) error {
	c, ok := ctx.Value(streamContextKey{}).(*streamContext)
	if !ok || c.request == nil {
		return err
	}
	violation := c.request.Violation()
	if violation == nil {
		return err
	}
	return violationError(violation)
}

// limitRate limits how many requests a client makes per second. Health checks do not count: an
// orchestrator restarts a server that does not answer them. Reports have a limit of their own.
func (i *Interceptors) limitRate(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	allow := i.Limits.AllowRequest
	switch {
	case strings.HasPrefix(info.FullMethod, "/"+healthpb.Health_ServiceDesc.ServiceName+"/"):
		return handler(srv, stream)
	case info.FullMethod == fanoutv1.FanoutService_Report_FullMethodName:
		allow = i.Limits.AllowReport
	}
	if err := allow(quota.ClientOf(stream.Context())); err != nil {
		return err
	}
	return handler(srv, stream)
}

// streamBytes is the memory that a client stream reserves for as long as it lasts.
const streamBytes = 1 << 20

// receive waits for the size of a request, and reserves its memory. A request that has already
// arrived completely reserves none: it is small.
func receive(l *quota.Limiter, ctx context.Context, info *grpc.StreamServerInfo) (*quota.Reservation, error) {
	c, ok := ctx.Value(streamContextKey{}).(*streamContext)
	if !ok || c.request == nil {
		return nil, nil
	}
	size, compressed, complete := c.request.AwaitSize(ctx)
	switch {
	case compressed:
		size = int64(2 * l.RequestBytes) // gRPC refuses to decompress more
	case size > int64(l.RequestBytes):
		return nil, tooLarge(l, size)
	case complete:
		size = 0
	}
	if info.IsClientStream {
		size = max(size, streamBytes)
	}
	return l.ReserveRequest(ctx, size)
}

// checkSize refuses a request that is too large. gRPC itself refuses requests of more than
// twice the limit, without a reason.
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
	return &apierr.LimitError{Name: apierr.MaxRequestSize, What: "request", Limit: float64(l.RequestBytes), Size: int(size)}
}
