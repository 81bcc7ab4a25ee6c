package rpc

import (
	"context"
	"slices"
	"time"

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
			s.Handler = chain(r.interceptors, s.Handler, info)
		}
		s.Handler = chain(r.observers, s.Handler, info)
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

// chain returns a handler behind interceptors, the first of which is the outermost.
func chain(interceptors []grpc.StreamServerInterceptor, handler grpc.StreamHandler, info *grpc.StreamServerInfo) grpc.StreamHandler {
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

// answered logs slow unary requests, and leaves the response with the call.
func (i *Interceptors) answered(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	began := time.Now()
	resp, err := handler(ctx, req)
	i.Slow.Note(ctx, "request", time.Since(began), req)
	CallOf(ctx).answer = resp
	return resp, err
}
