package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Accept sends the response header of a stream with watches. The messages of the stream are not
// compressed: gRPC would compress a message once for each stream, on the worker for which others wait.
// An error means that the client has gone.
func Accept(ctx context.Context, stream grpc.ServerStream, header metadata.MD) error {
	err := grpc.SetSendCompressor(ctx, encoding.Identity)
	if err == nil {
		err = stream.SendHeader(header)
	}
	if err != nil {
		return status.FromContextError(context.Canceled).Err()
	}
	return nil
}
