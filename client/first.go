package client

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// WithFirstServer has everything go to the first server of the target that can be
// reached, instead of to all in turn: for what each server knows of itself alone, such
// as who watches there. Answered is called with the address of the server each time
// one has answered a request, possibly by several goroutines at once.
func WithFirstServer(answered func(address string)) Option {
	return WithDialOptions(
		grpc.WithDefaultServiceConfig(strings.Replace(serviceConfig, balancerName, "pick_first", 1)),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			var p peer.Peer
			err := invoke(ctx, method, req, reply, conn, append(opts, grpc.Peer(&p))...)
			if address, ok := p.Addr.(*net.TCPAddr); ok {
				answered(address.String())
			}
			return err
		}))
}
