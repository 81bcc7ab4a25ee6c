package calls

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// ProtocolEmpty is the protocol of the server that ServeEmpty runs.
const ProtocolEmpty = "grpc"

const (
	emptyService = "fanoutbench.Empty"
	emptyMethod  = "Call"
	emptyPath    = "/" + emptyService + "/" + emptyMethod
)

// ServeEmpty runs a server of grpc-go with its default options, whose only method does nothing. It is
// the least that a unary call can cost with grpc-go. It returns when the context ends.
func ServeEmpty(ctx context.Context, listener net.Listener) error {
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: emptyService, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: emptyMethod, Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			if err := decode(&emptypb.Empty{}); err != nil {
				return nil, err
			}
			return &emptypb.Empty{}, nil
		}}},
	}, nil)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	return server.Serve(listener)
}
