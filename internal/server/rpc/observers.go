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

// interceptors returns the observers as interceptors of all methods.
func (o Observers) interceptors() []grpc.StreamServerInterceptor {
	if o.Unary == nil || o.Stream == nil {
		return nil
	}
	return []grpc.StreamServerInterceptor{either(o.Unary, unobserved(o.Stream))}
}

// Options returns the observers that are options of a gRPC server.
func (o Observers) Options() []grpc.ServerOption {
	if o.Stats == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(o.Stats)}
}

// unobserved hides the messages of watches from an interceptor, which sees only the beginning
// and the end. Otherwise ten thousand watches would pay for it with each event.
func unobserved(next grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if !intercepts(info.FullMethod) {
			return next(srv, stream, info, handler)
		}
		return next(srv, stream, info, func(srv any, _ grpc.ServerStream) error { return handler(srv, stream) })
	}
}

// either combines the two interceptors that a library has for unary methods and streams. The
// unary one sees neither request nor response.
func either(unary grpc.UnaryServerInterceptor, stream grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if !IsUnary(info) {
			return stream(srv, s, info, handler)
		}
		_, err := unary(s.Context(), nil, &grpc.UnaryServerInfo{Server: srv, FullMethod: info.FullMethod}, func(ctx context.Context, _ any) (any, error) {
			wrapped := middleware.WrapServerStream(s)
			wrapped.WrappedContext = ctx
			return nil, handler(srv, wrapped)
		})
		return err
	}
}
