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
		{MethodName: "Get", Handler: unary(fanoutv1.FanoutService_Get_FullMethodName, f.Get)},
		{MethodName: "List", Handler: unary(fanoutv1.FanoutService_List_FullMethodName, f.List)},
		{MethodName: "Report", Handler: unary(fanoutv1.FanoutService_Report_FullMethodName, f.Report)},
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
			m.Handler = unary(fanoutv1.AdminService_ListWatchers_FullMethodName, a.reserveAndListWatchers)
		}
	}
	return &desc
}

func unary[Request, Response any](method string, handle func(context.Context, *Request) (Response, error)) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		req := new(Request)
		if err := decode(req); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, req any) (any, error) { return handle(ctx, req.(*Request)) }
		return interceptor(ctx, req, &grpc.UnaryServerInfo{FullMethod: method}, handler)
	}
}
