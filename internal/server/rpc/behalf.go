package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// behalfHeader has the certificate (DER) of the client that the gateway makes a request for.
// It has a meaning only on connections within the process.
const behalfHeader = "fanoutd-certificate-bin"

// behalf returns the context of an outgoing request with the certificate of the client that it
// is made for. It removes headers that the client itself may have sent.
func behalf(ctx context.Context) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	delete(md, behalfHeader)
	delete(md, quota.GatewayHeader)
	if certificate := access.BehalfOf(ctx).Certificate; certificate != nil {
		md.Set(behalfHeader, string(certificate.Raw))
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// BehalfUnary is the client interceptor for unary requests of the gateway.
func (i *Interceptors) BehalfUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx = behalf(ctx)
	if method == fanoutv1.FanoutService_List_FullMethodName || method == fanoutv1.FanoutService_Get_FullMethodName {
		ctx = i.Limits.BeginGateway(ctx)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// BehalfStream is the client interceptor for streams of the gateway.
func BehalfStream(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return open(behalf(ctx), d, cc, method, opts...)
}
