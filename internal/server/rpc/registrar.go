package rpc

import (
	"context"
	"slices"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Registrar registers services behind interceptors. It registers all methods as streams,
// because gRPC calls the interceptors of a unary method only after it has read the request,
// before the caller is authenticated. The interceptors of a stream run first, and the request
// is read when they let it through. On the wire there is no difference.
type Registrar struct {
	*grpc.Server
	observers    []grpc.StreamServerInterceptor // the outermost first
	interceptors []grpc.StreamServerInterceptor // inside of the observers; see intercepts
	answered     grpc.UnaryServerInterceptor    // of unary methods, after the request has been read
}

// RegisterService implements grpc.ServiceRegistrar.
func (r Registrar) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	all := *desc
	all.Methods, all.Streams = nil, nil
	for _, m := range desc.Methods {
		all.Streams = append(all.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: r.stream(m.Handler)})
	}
	all.Streams = append(all.Streams, desc.Streams...)
	for i := range all.Streams {
		s := &all.Streams[i]
		info := &grpc.StreamServerInfo{
			FullMethod: "/" + desc.ServiceName + "/" + s.StreamName, IsClientStream: s.ClientStreams, IsServerStream: s.ServerStreams,
		}
		if !intercepts(info.FullMethod) {
			s.Handler = Chain(append([]grpc.StreamServerInterceptor{noteAnswer}, r.interceptors...), s.Handler, info)
		}
		s.Handler = Chain(r.observers, s.Handler, info)
	}
	r.Server.RegisterService(&all, implementation)
}

// stream returns a handler that reads one request and sends one response.
func (r Registrar) stream(handler grpc.MethodHandler) grpc.StreamHandler {
	return func(implementation any, stream grpc.ServerStream) error {
		answer, err := handler(implementation, stream.Context(), stream.RecvMsg, r.answered)
		if err != nil {
			return err
		}
		return stream.SendMsg(answer)
	}
}

// Chain returns a handler behind interceptors, the first of which is the outermost.
func Chain(interceptors []grpc.StreamServerInterceptor, handler grpc.StreamHandler, info *grpc.StreamServerInfo) grpc.StreamHandler {
	for _, one := range slices.Backward(interceptors) {
		next := handler
		handler = func(implementation any, stream grpc.ServerStream) error {
			return one(implementation, stream, info, next)
		}
	}
	return handler
}

// intercepts reports whether the handler of a method does itself what the interceptors do. Its
// streams last long, and the stacks of interceptors would stay in memory as long.
func intercepts(fullMethod string) bool {
	switch fullMethod {
	case fanoutv1.FanoutService_Watch_FullMethodName, fanoutv1.FanoutService_Subscribe_FullMethodName:
		return true
	}
	return false
}

// IsUnary reports whether a method has one request and one response.
func IsUnary(info *grpc.StreamServerInfo) bool { return !info.IsClientStream && !info.IsServerStream }

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

// answered logs slow unary requests, and leaves the response with the call.
func (i *Interceptors) answered(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	began := time.Now()
	resp, err := handler(ctx, req)
	i.Slow.Note(ctx, "request", time.Since(began), req)
	CallOf(ctx).exchange().answer = resp
	return resp, err
}
