package server

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// What a connection within the process may hold: the windows say how far a watch
// gets ahead of somebody who does not take its messages. They are set because
// otherwise they grow, to no use where there is no network in between.
const (
	localBuffer  = 64 << 10
	localWindow  = 256 << 10
	localMessage = 16 << 20 // a whole response; the largest has one revision of large events
)

// Local returns a connection to the server within the process, for those who speak
// for others, such as a gateway. What comes over it is checked, limited and logged like
// everything else. But it carries as many requests as are made, and is never too old:
// it is the one of many clients, who would wait for each other without being told why,
// and each of whom has connections of its own that are limited. And the one who speaks may say
// in the headers of grpc-gateway (x-forwarded-for, grpcgateway-user-agent) for whom,
// and with [access.OnBehalf] whose certificate TLS has verified. The caller closes it,
// after the server has stopped.
func (s *Server) Local(options ...grpc.DialOption) (*grpc.ClientConn, error) {
	listener := bufconn.Listen(localBuffer)
	conn, err := grpc.NewClient("passthrough:///local", append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(localWindow),
		grpc.WithInitialConnWindowSize(localMessage),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(localMessage)),
		grpc.WithDisableServiceConfig(),
		grpc.WithChainUnaryInterceptor(s.interceptors.BehalfUnary),
		grpc.WithChainStreamInterceptor(rpc.BehalfStream),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("connect within the process: %w", err)
	}
	// It ends when the server stops, which closes the listener.
	s.local.Go(func() { _ = s.within.Serve(transport.LocalListener{Listener: listener}) })
	return conn, nil
}
