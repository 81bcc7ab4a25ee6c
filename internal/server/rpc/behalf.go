package rpc

import (
	"context"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// behalfHeader has the certificate (DER) of the one whom a request is made for. It
// means something on connections within the process only.
const behalfHeader = "fanoutd-certificate-bin"

// behalf returns the context of an outgoing request, with the certificate of the one
// whom it is made for, and no other.
func behalf(ctx context.Context) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	delete(md, behalfHeader)
	delete(md, quota.GatewayHeader)
	if certificate := access.BehalfOf(ctx); certificate != nil {
		md.Set(behalfHeader, string(certificate.Raw))
	}
	return metadata.NewOutgoingContext(ctx, md)
}

func (i *Interceptors) BehalfUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx = behalf(ctx)
	if method == fanoutv1.FanoutService_List_FullMethodName || method == fanoutv1.FanoutService_Get_FullMethodName {
		ctx = i.Limits.BeginGateway(ctx)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func BehalfStream(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return open(behalf(ctx), d, cc, method, opts...)
}
