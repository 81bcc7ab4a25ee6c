package rpc

import (
	"context"
	"slices"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"
)

// Registrar registers services behind interceptors. It registers all methods as streams,
// because gRPC calls the interceptors of a unary method only after it has read the request,
// before the caller is authenticated. The interceptors of a stream run first, and the request
// is read when they let it through. On the wire there is no difference.
type Registrar struct {
	*grpc.Server
	observers    []grpc.StreamServerInterceptor // the outermost first
	interceptors []grpc.StreamServerInterceptor // inside of the observers
	answered     grpc.UnaryServerInterceptor    // of unary methods, after the request has been read
}

// RegisterService implements grpc.ServiceRegistrar.
func (r Registrar) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	r.register(desc, implementation, r.intercepted)
}

// RegisterEntrance registers a service whose streams carry watches. Their handlers do themselves what
// the interceptors do, because the streams last long, and the stacks of interceptors would stay in
// memory as long. They use [Interceptors.Admission] and [Interceptors.Conclude]. Observers see only
// the beginning and the end of these streams.
func (r Registrar) RegisterEntrance(desc *grpc.ServiceDesc) {
	r.register(desc, nil, func(handler grpc.StreamHandler, info *grpc.StreamServerInfo) grpc.StreamHandler {
		if IsUnary(info) {
			return r.intercepted(handler, info)
		}
		return func(srv any, stream grpc.ServerStream) error {
			return Chain(r.observers, func(srv any, _ grpc.ServerStream) error { return handler(srv, stream) }, info)(srv, stream)
		}
	})
}

func (r Registrar) register(desc *grpc.ServiceDesc, implementation any, wrap func(grpc.StreamHandler, *grpc.StreamServerInfo) grpc.StreamHandler) {
	all := *desc
	all.Methods, all.Streams = nil, nil
	for _, m := range desc.Methods {
		all.Streams = append(all.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: r.stream(m.Handler)})
	}
	all.Streams = append(all.Streams, desc.Streams...)
	for i := range all.Streams {
		s := &all.Streams[i]
		s.Handler = wrap(s.Handler, &grpc.StreamServerInfo{
			FullMethod: "/" + desc.ServiceName + "/" + s.StreamName, IsClientStream: s.ClientStreams, IsServerStream: s.ServerStreams,
		})
	}
	r.Server.RegisterService(&all, implementation)
}

// intercepted returns a handler behind the observers and the interceptors.
func (r Registrar) intercepted(handler grpc.StreamHandler, info *grpc.StreamServerInfo) grpc.StreamHandler {
	return Chain(slices.Concat(r.observers, []grpc.StreamServerInterceptor{noteAnswer}, r.interceptors), handler, info)
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
