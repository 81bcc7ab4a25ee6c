package rpc

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
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

// Receiving is a stream that reports a missing or malformed request as a fault of the client.
// gRPC reports an internal error, and sends it to the client before RecvMsg returns. Here
// only the log is corrected, so that operators do not look for a fault of the server.
type Receiving struct{ grpc.ServerStream }

// RecvMsg implements [grpc.ServerStream].
func (r Receiving) RecvMsg(req any) error {
	err := r.ServerStream.RecvMsg(req)
	if status.Code(err) != codes.Internal {
		return err
	}
	return apierr.InvalidError{&errdetails.BadRequest_FieldViolation{Description: "the request cannot be read: " + status.Convert(err).Message()}}
}
