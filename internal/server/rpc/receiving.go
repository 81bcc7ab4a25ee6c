package rpc

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

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
