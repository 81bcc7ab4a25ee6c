package rpc

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Observers look at requests and change nothing. They come first, so they see what
// clients are answered. None is required, but Unary and Stream come together.
type Observers struct {
	Unary  grpc.UnaryServerInterceptor  // it gets to see neither request nor answer
	Stream grpc.StreamServerInterceptor // it does not get to see the messages of watches
	Stats  stats.Handler
}

// interceptors returns what has the observers look at each method.
func (o Observers) interceptors() []grpc.StreamServerInterceptor {
	if o.Unary == nil || o.Stream == nil {
		return nil
	}
	return []grpc.StreamServerInterceptor{either(o.Unary, unobserved(o.Stream))}
}

// Options returns the rest.
func (o Observers) Options() []grpc.ServerOption {
	if o.Stats == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(o.Stats)}
}

// unobserved keeps what an interceptor does with each message away from watches, which
// would pay for it ten thousand times for each event. It sees them begin and end.
func unobserved(next grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if info.FullMethod != fanoutv1.FanoutService_Watch_FullMethodName {
			return next(srv, stream, info, handler)
		}
		return next(srv, stream, info, func(srv any, _ grpc.ServerStream) error { return handler(srv, stream) })
	}
}
