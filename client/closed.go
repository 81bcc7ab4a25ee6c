package client

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrClosed is the error of all calls of a client that is closed, and of those that
// [Client.Close] ends.
var ErrClosed = errors.New("the client is closed")

// unlessClosed returns the error of a call. If the client was closed, that is ErrClosed
// instead of the status with which gRPC ends the call.
func (c *Client) unlessClosed(ctx context.Context, call func() error) error {
	if c.open.Err() != nil {
		return ErrClosed
	}
	err := call()
	if status.Code(err) == codes.Canceled && c.open.Err() != nil && ctx.Err() == nil {
		return ErrClosed
	}
	return err
}

// closedUnary is a grpc.UnaryClientInterceptor.
func (c *Client) closedUnary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return c.unlessClosed(ctx, func() error { return invoke(ctx, method, req, reply, conn, opts...) })
}

// closedStream is a grpc.StreamClientInterceptor.
func (c *Client) closedStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (stream grpc.ClientStream, err error) {
	err = c.unlessClosed(ctx, func() error {
		stream, err = open(ctx, desc, conn, method, opts...)
		return err
	})
	return stream, err
}
