package rpc

import (
	"slices"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
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
// themselves what the interceptors do, with [Interceptors.AdmitRequest] and [Interceptors.Conclude], because
// the streams last long, and the stacks of interceptors would stay in memory as long.
func (r Registrar) RegisterEntrances(desc *grpc.ServiceDesc, names ...string) {
	r.register(desc, nil, names)
}

func (r Registrar) register(desc *grpc.ServiceDesc, implementation any, entrances []string) {
	all := *desc
	all.Methods, all.Streams = nil, nil
	writes := desc.ServiceName == fanoutv1.StoreService_ServiceDesc.ServiceName
	for _, m := range desc.Methods {
		info := &grpc.StreamServerInfo{FullMethod: "/" + desc.ServiceName + "/" + m.MethodName}
		method := &unaryMethod{Interceptors: r.Interceptors, info: info, handle: m.Handler, writes: writes}
		all.Streams = append(all.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: r.Observers.observe(method.serve, info, false)})
	}
	for _, s := range desc.Streams {
		info := &grpc.StreamServerInfo{
			FullMethod: "/" + desc.ServiceName + "/" + s.StreamName, IsClientStream: s.ClientStreams, IsServerStream: s.ServerStreams,
		}
		entrance := slices.Contains(entrances, s.StreamName)
		if !entrance {
			s.Handler = behind(r.Interceptors.serveStream, behind(r.Interceptors.AdmitRequest, s.Handler, info), info)
		}
		s.Handler = r.Observers.observe(s.Handler, info, !entrance)
		all.Streams = append(all.Streams, s)
	}
	r.Server.RegisterService(&all, implementation)
}

// behind returns a handler behind an interceptor.
func behind(by grpc.StreamServerInterceptor, handler grpc.StreamHandler, info *grpc.StreamServerInfo) grpc.StreamHandler {
	return func(implementation any, stream grpc.ServerStream) error {
		return by(implementation, stream, info, handler)
	}
}

// IsUnary reports whether a method has one request and one response.
func IsUnary(info *grpc.StreamServerInfo) bool { return !info.IsClientStream && !info.IsServerStream }
