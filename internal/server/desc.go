package server

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// serviceDesc returns the generated description of FanoutService with other handlers, because
// Get and List return encoded responses. The generated handlers need the generated response
// types, which gRPC would marshal for each request.
func serviceDesc(f *fanout, watch, subscribe grpc.StreamHandler) *grpc.ServiceDesc {
	desc := fanoutv1.FanoutService_ServiceDesc
	desc.HandlerType = nil
	desc.Methods = []grpc.MethodDesc{
		{MethodName: "Get", Handler: unary(f.Get)},
		{MethodName: "List", Handler: unary(f.List)},
		{MethodName: "History", Handler: unary(f.History)},
		{MethodName: "Report", Handler: unary(f.Report)},
	}
	desc.Streams = []grpc.StreamDesc{
		{StreamName: "Watch", ServerStreams: true, Handler: watch},
		{StreamName: "Subscribe", ServerStreams: true, ClientStreams: true, Handler: subscribe},
	}
	return &desc
}

// adminDesc returns the generated description of AdminService with another handler for
// ListWatchers, because the memory of its response is reserved until gRPC has sent it.
func adminDesc(a *admin) *grpc.ServiceDesc {
	desc := fanoutv1.AdminService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if m := &desc.Methods[i]; m.MethodName == "ListWatchers" {
			m.Handler = unary(a.reserveAndListWatchers)
		}
	}
	return &desc
}

// unary returns the handler of a method. It needs no interceptor, see [rpc.Registrar].
func unary[Request, Response any](handle func(context.Context, *Request) (Response, error)) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req := new(Request)
		if err := decode(req); err != nil {
			return nil, err
		}
		return handle(ctx, req)
	}
}
