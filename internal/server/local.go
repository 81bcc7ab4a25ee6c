package server

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// Sizes of an in-process connection. The flow-control windows bound how many bytes a watch
// is ahead of a client that does not read. They are fixed, because gRPC would otherwise
// grow them, which helps only on a network.
const (
	localBuffer  = 64 << 10
	localWindow  = 256 << 10
	localMessage = 16 << 20 // a whole response; the largest contains one revision of large events
)

// Local is an in-process connection to the server.
type Local struct {
	*grpc.ClientConn
	server *Server
}

// Local returns an in-process connection to the server, for a gateway that makes requests on
// behalf of its clients. These requests are checked, limited and logged like all others.
// Only the limits of a single connection (number of streams, age) do not apply, because all
// clients of the gateway share it, and their own connections are limited.
//
// The gateway names its client in the headers of grpc-gateway (x-forwarded-for,
// grpcgateway-user-agent), and passes the client's verified certificate on with
// [access.OnBehalf]. The caller closes the connection after the server has stopped.
func (s *Server) Local() (*Local, error) {
	conn, err := connectWithin(s.within, &s.local,
		grpc.WithChainUnaryInterceptor(s.interceptors.BehalfUnary),
		grpc.WithChainStreamInterceptor(rpc.BehalfStream),
	)
	if err != nil {
		return nil, err
	}
	return &Local{conn, s}, nil
}

// connectWithin returns a connection to a gRPC server in this process. The server serves it in serving, until it
// is stopped.
func connectWithin(server *grpc.Server, serving *sync.WaitGroup, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	listener := bufconn.Listen(localBuffer)
	conn, err := grpc.NewClient("passthrough:///local", append(options,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(localWindow),
		grpc.WithInitialConnWindowSize(localMessage),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(localMessage)),
		grpc.WithDisableServiceConfig(),
	)...)
	if err != nil {
		return nil, fmt.Errorf("connect within the process: %w", err)
	}
	// Serve returns when the server stops, because that closes the listener.
	serving.Go(func() { _ = server.Serve(transport.LocalListener{Listener: listener}) })
	return conn, nil
}
