package rpc

import (
	"context"
	"log/slog"
	"strings"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/work"
)

// Interceptors has the state that the interceptors of all methods share. All fields but
// Authenticator and Audit are required.
type Interceptors struct {
	Log           *slog.Logger
	Authenticator *access.Authenticator // nil: all callers are anonymous
	Rights        *Rights
	Limits        *quota.Limiter
	Audit         *audit.Log           // nil: there is none
	Denials       quota.ClientLimiters // see NewDenials
	Slow          *SlowLog
	Stopping      context.Context // ends the streams of all methods but entrances, which would last for as long as clients like; the registry ends those of entrances
}

// Call carries what inner interceptors find out to outer ones, such as the identity of the
// caller for the audit log.
type Call struct {
	Identity access.Identity // of the caller, once it is known
	Resource string          // that the request names
	pass     *access.Pass    // see PassOf; nil: there is no authenticator
	request  any             // of a unary method; nil: it has not been read
	answer   any             // of a unary method; nil: there is none
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

// serveStream is an interceptor that concludes a call when its handler has returned or panicked. It ends
// the stream when the server stops.
func (i *Interceptors) serveStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	began, client := time.Now(), stream.Context()
	wrapped := middleware.WrapServerStream(stream)
	ctx, cancel := context.WithCancel(client)
	defer cancel()
	defer context.AfterFunc(i.Stopping, cancel)()
	wrapped.WrappedContext = ctx
	err := work.Guard(func() error {
		err := handler(srv, wrapped)
		if err != nil && wrapped.WrappedContext.Err() != nil && client.Err() == nil && !apierr.IsBadCredentials(err) {
			return apierr.ErrDraining // the client has not cancelled
		}
		return err
	})
	return i.Conclude(client, info.FullMethod, began, err)
}

// AdmitRequest is an interceptor that decides whether a request is admitted. It authenticates the caller, and
// limits the rate, the memory and the size of requests.
func (i *Interceptors) AdmitRequest(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	admitted, err := i.admit(stream, info)
	if err != nil {
		return err
	}
	defer admitted.release()
	return handler(srv, admitted)
}

// admit is what AdmitRequest does before the request is read. The caller releases the stream.
func (i *Interceptors) admit(stream grpc.ServerStream, info *grpc.StreamServerInfo) (*requestStream, error) {
	sendWait(stream.Context())
	ctx, err := i.authenticate(stream.Context())
	if err != nil {
		return nil, err
	}
	CallOf(ctx).Identity = access.From(ctx)
	if err := i.limitRate(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return &requestStream{ServerStream: stream, ctx: ctx, limits: i.Limits, info: info}, nil
}

// requestStream is a stream whose caller is known and whose requests are limited.
type requestStream struct {
	grpc.ServerStream
	ctx     context.Context // with the identity of the caller
	limits  *quota.Limiter
	info    *grpc.StreamServerInfo
	began   bool               // memory for the first request was reserved
	memory  *quota.Reservation // for the first request, and later ones of the same stream
	arrived time.Time          // when the request of a unary method had arrived
}

// Context implements grpc.ServerStream.
func (s *requestStream) Context() context.Context { return s.ctx }

// release releases the memory of the requests.
func (s *requestStream) release() { s.memory.Release() }

// RecvMsg implements grpc.ServerStream.
func (s *requestStream) RecvMsg(m any) (err error) {
	if !s.began {
		s.began = true
		stop, err := beginReading(s.ctx, s.limits.RequestPatience)
		if err != nil {
			return err
		}
		if stop != nil {
			defer stop()
		}
		s.memory, err = receive(s.limits, s.ctx, s.info)
		if err := violationOr(s.ctx, err); err != nil {
			return err // gRPC would send another status
		}
	}
	if err := (Receiving{s.ServerStream}).RecvMsg(m); err != nil {
		s.memory.Release()
		return violationOr(s.ctx, err)
	}
	arrived(s.ctx)
	c := CallOf(s.ctx)
	if named, ok := m.(interface{ GetResource() string }); ok {
		c.Resource = apierr.Clip(named.GetResource(), apierr.MaxEchoBytes)
	}
	switch {
	case IsUnary(s.info):
		c.request, s.arrived = m, time.Now()
	case !s.info.IsClientStream:
		s.memory.Release() // a watch lasts long and keeps little of its request
	default:
		// A registry knows the watches, and examines them when access changes. Other client streams
		// are checked with each message.
		if err := PassOf(s.ctx).Check(); err != nil {
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
func (i *Interceptors) limitRate(ctx context.Context, fullMethod string) error {
	switch {
	case strings.HasPrefix(fullMethod, "/"+healthpb.Health_ServiceDesc.ServiceName+"/"):
		return nil
	case fullMethod == fanoutv1.FanoutService_Report_FullMethodName:
		return i.Limits.AllowReport(quota.ClientOf(ctx))
	case i.Limits.RequestRate == 0:
		return nil // to find out the client would cost more than all of this
	}
	return i.Limits.AllowRequest(quota.ClientOf(ctx))
}

// streamBytes is the memory that a client stream reserves for as long as it lasts. Subscribe is
// described to AdmitRequest as a stream with one request, because it bounds its later ones itself.
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
