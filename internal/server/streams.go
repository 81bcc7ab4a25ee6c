package server

import (
	"context"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// otherStreams are the streams besides watches, such as those of the health service. Their
// clients would keep them open for as long as they like.
type otherStreams struct {
	ended context.Context
	end   context.CancelFunc // ends them
}

func newOtherStreams() (s otherStreams) {
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

// intercept ends a stream when the server stops. Watches do not pass through it.
func (s otherStreams) intercept(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if rpc.IsUnary(info) {
		return handler(srv, stream)
	}
	client := stream.Context()
	ctx, cancel := context.WithCancel(client)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	wrapped := middleware.WrapServerStream(stream)
	wrapped.WrappedContext = ctx
	err := handler(srv, wrapped)
	if err != nil && ctx.Err() != nil && client.Err() == nil {
		return apierr.ErrDraining // the client has not cancelled
	}
	return err
}
