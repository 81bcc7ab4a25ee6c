package rpc

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Receiving is a stream that calls a request which cannot be decoded, or is missing, a
// fault of the client. gRPC calls it an internal error, and tells the client so before
// anybody is asked; but nobody needs to look at the server for it.
type Receiving struct{ grpc.ServerStream }

// RecvMsg implements [grpc.ServerStream].
func (r Receiving) RecvMsg(req any) error {
	err := r.ServerStream.RecvMsg(req)
	if status.Code(err) != codes.Internal {
		return err
	}
	return apierr.InvalidError{&errdetails.BadRequest_FieldViolation{Description: "the request cannot be read: " + status.Convert(err).Message()}}
}
