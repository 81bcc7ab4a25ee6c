package server

import (
	"context"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
)

// serviceDesc returns the generated description of FanoutService with other handlers for Get
// and List, which return encoded responses. The generated handlers need the generated
// response types, which gRPC would marshal for each request.
func serviceDesc(f *fanout, watch grpc.StreamHandler) *grpc.ServiceDesc {
	desc := fanoutv1.FanoutService_ServiceDesc
	desc.HandlerType = nil
	desc.Methods = []grpc.MethodDesc{
		{MethodName: "Get", Handler: unary(fanoutv1.FanoutService_Get_FullMethodName, f.Get)},
		{MethodName: "List", Handler: unary(fanoutv1.FanoutService_List_FullMethodName, f.List)},
	}
	desc.Streams = []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, Handler: watch}}
	return &desc
}

func unary[Request any](method string, handle func(context.Context, *Request) (grpcmsg.Response, error)) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		req := new(Request)
		if err := decode(req); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, req any) (any, error) { return handle(ctx, req.(*Request)) }
		if interceptor == nil {
			return handler(ctx, req)
		}
		return interceptor(ctx, req, &grpc.UnaryServerInfo{FullMethod: method}, handler)
	}
}
