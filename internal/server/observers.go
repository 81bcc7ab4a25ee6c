package server

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Observers look at requests and change nothing. They come first, so they see what
// clients are answered. None is required.
type Observers struct {
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor // it does not get to see the messages of watches
	Stats  stats.Handler
}

// options returns what has the observers look.
func (o Observers) options() []grpc.ServerOption {
	var options []grpc.ServerOption
	if o.Unary != nil {
		options = append(options, grpc.ChainUnaryInterceptor(o.Unary))
	}
	if o.Stream != nil {
		options = append(options, grpc.ChainStreamInterceptor(unobserved(o.Stream)))
	}
	if o.Stats != nil {
		options = append(options, grpc.StatsHandler(o.Stats))
	}
	return options
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

// GetServiceInfo returns the services that are served, and their methods.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.grpc.GetServiceInfo() }
