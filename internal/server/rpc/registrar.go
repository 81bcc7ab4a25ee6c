package rpc

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
)

// Registrar registers services behind interceptors. It registers all methods as streams,
// because gRPC calls the interceptors of a unary method only after it has read the request,
// before the caller is authenticated. The interceptors of a stream run first, and the request
// is read when they let it through. On the wire there is no difference.
type Registrar struct {
	*grpc.Server
	Interceptors *Interceptors
	Observers    Observers // outside of the interceptors
}

// RegisterService implements grpc.ServiceRegistrar.
func (r Registrar) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	r.register(desc, implementation, nil)
}

// RegisterEntrances registers a service in which the named streams carry watches. Their handlers do
// themselves what the interceptors do, with [Interceptors.Admit] and [Interceptors.Conclude], because
// the streams last long, and the stacks of interceptors would stay in memory as long.
func (r Registrar) RegisterEntrances(desc *grpc.ServiceDesc, names ...string) {
	r.register(desc, nil, names)
}

func (r Registrar) register(desc *grpc.ServiceDesc, implementation any, entrances []string) {
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
		if slices.Contains(entrances, s.StreamName) {
			s.Handler = behind(r.Observers.interceptEnds, s.Handler, info)
			continue
		}
		s.Handler = behind(r.Interceptors.serveCall, behind(r.Interceptors.Admit, s.Handler, info), info)
		s.Handler = behind(r.Observers.intercept, s.Handler, info)
	}
	r.Server.RegisterService(&all, implementation)
}

// stream returns a handler that reads one request and sends one response.
func (r Registrar) stream(handler grpc.MethodHandler) grpc.StreamHandler {
	return func(implementation any, stream grpc.ServerStream) error {
		answer, err := handler(implementation, stream.Context(), stream.RecvMsg, r.Interceptors.answered)
		if err != nil {
			return err
		}
		return stream.SendMsg(answer)
	}
}

// behind returns a handler behind an interceptor.
func behind(by grpc.StreamServerInterceptor, handler grpc.StreamHandler, info *grpc.StreamServerInfo) grpc.StreamHandler {
	return func(implementation any, stream grpc.ServerStream) error {
		return by(implementation, stream, info, handler)
	}
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
