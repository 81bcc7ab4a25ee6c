package client

import (
	"context"
	"errors"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// attemptsKey is the key of the number of attempts in the context of a request.
type attemptsKey struct{}

// observeRequest is a grpc.UnaryClientInterceptor that calls the hook for requests. Reports of progress belong to
// watches.
func (c *Client) observeRequest(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == fanoutv1.FanoutService_Report_FullMethodName {
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	attempts, began := new(int), time.Now()
	err := invoke(context.WithValue(ctx, attemptsKey{}, attempts), method, req, reply, conn, opts...)
	ended := RequestEnded{Method: path.Base(method), Code: status.Code(err), Duration: time.Since(began), Attempts: *attempts}
	if errors.Is(err, ErrClosed) {
		ended.Code = codes.Canceled
	}
	if r, ok := req.(interface{ GetResource() string }); ok {
		ended.Resource = r.GetResource()
	}
	observe(c, c.observer.Request, ended)
	return err
}

// countAttempt is a grpc.UnaryClientInterceptor that counts the attempts for observeRequest.
func (c *Client) countAttempt(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var server peer.Peer // known if the request was sent
	err := invoke(ctx, method, req, reply, conn, append(opts[:len(opts):len(opts)], grpc.Peer(&server))...)
	if attempts, ok := ctx.Value(attemptsKey{}).(*int); ok && server.Addr != nil {
		*attempts++
	}
	return err
}
