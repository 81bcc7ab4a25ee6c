package server

import (
	"context"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/test/bufconn"
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
// for others, such as a gateway. It is a connection like any other: what comes over
// it is checked, limited and logged in the same way, but the one who speaks may say
// in the headers of grpc-gateway (x-forwarded-for, grpcgateway-user-agent) for whom.
// The caller closes it, after the server has stopped.
func (s *Server) Local(options ...grpc.DialOption) (*grpc.ClientConn, error) {
	listener := bufconn.Listen(localBuffer)
	conn, err := grpc.NewClient("passthrough:///local", append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(localWindow),
		grpc.WithInitialConnWindowSize(localMessage),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(localMessage)),
		grpc.WithDisableServiceConfig(),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("connect within the process: %w", err)
	}
	// It ends when the server stops, which closes the listener.
	s.local.Go(func() { _ = s.grpc.Serve(listener) })
	return conn, nil
}

// localAddress is the address of whoever is within the process.
var localAddress = (&bufconn.Listener{}).Addr().String()

// caller returns who makes a request: its address, and what it says it is.
func caller(ctx context.Context) (address, userAgent string) {
	if p, ok := peer.FromContext(ctx); ok {
		address = p.Addr.String()
	}
	userAgent = header(ctx, "user-agent")
	if address == localAddress {
		// The gateway adds the address that it knows behind those it was told.
		all := strings.Split(header(ctx, "x-forwarded-for"), ", ")
		address, userAgent = all[len(all)-1], header(ctx, "grpcgateway-user-agent")
	}
	return address, clip(userAgent, maxUserAgentBytes)
}

// header returns the first value of a request header.
func header(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}
