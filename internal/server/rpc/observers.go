package rpc

import (
	"context"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
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

// Options returns the observers that are options of a gRPC server.
func (o Observers) Options() []grpc.ServerOption {
	if o.Stats == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(o.Stats)}
}

// intercept is the interceptor for all methods.
func (o Observers) intercept(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	switch {
	case o.Unary == nil:
		return handler(srv, stream)
	case IsUnary(info):
		_, err := o.Unary(stream.Context(), nil, &grpc.UnaryServerInfo{Server: srv, FullMethod: info.FullMethod}, func(ctx context.Context, _ any) (any, error) {
			wrapped := middleware.WrapServerStream(stream)
			wrapped.WrappedContext = ctx
			return nil, handler(srv, wrapped)
		})
		return err
	}
	return o.Stream(srv, stream, info, handler)
}

// interceptEnds is intercept for streams that carry watches. It hides the messages: otherwise ten
// thousand watches would pay for it with each event.
func (o Observers) interceptEnds(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return o.intercept(srv, stream, info, func(srv any, _ grpc.ServerStream) error { return handler(srv, stream) })
}
