package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// turn is a grpc.UnaryClientInterceptor that makes the next request avoid a server that was not available. Later
// requests use another connection after a failure that may be one of the connection: a proxy that answers for the
// server, or a certificate that is a newer one by now.
func (c *Client) turn(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	choice := serverChoiceOf(ctx)
	if failed := c.failed.Load(); failed != nil && choice.only == "" && c.failed.CompareAndSwap(failed, nil) {
		choice.avoid = *failed
	}
	err := invoke(withServerChoice(ctx, choice), method, req, reply, conn, opts...)
	if err == nil {
		return nil
	}
	e := errorOfStatus(status.Convert(err))
	if server := choice.server(); server != "" && e.Code == codes.Unavailable {
		c.failed.Store(&server)
	}
	if e.Code == codes.Unavailable && e.Reason == "" || e.Code == codes.Unauthenticated && c.renewsCertificate {
		choice.replace()
	}
	return err
}
