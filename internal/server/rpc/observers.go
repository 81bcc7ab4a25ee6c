package rpc

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// Observers see all requests, such as metrics and traces do. They are the outermost
// interceptors, so they see the status that the client gets. All are optional, but Unary and
// Stream need each other.
type Observers struct {
	Unary  grpc.UnaryServerInterceptor  // sees neither request nor response
	Stream grpc.StreamServerInterceptor // does not see the messages of watches
	Stats  stats.Handler
}

// interceptors returns the observers as interceptors of all methods.
func (o Observers) interceptors() []grpc.StreamServerInterceptor {
	if o.Unary == nil || o.Stream == nil {
		return nil
	}
	return []grpc.StreamServerInterceptor{either(o.Unary, o.Stream)}
}

// Options returns the observers that are options of a gRPC server.
func (o Observers) Options() []grpc.ServerOption {
	if o.Stats == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(o.Stats)}
}
