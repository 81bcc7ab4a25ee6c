package script

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Refusal returns the error of a server, with a reason of docs/reference/errors.md.
func Refusal(code codes.Code, reason string, details ...protoadapt.MessageV1) error {
	st, err := status.New(code, "refused by the script").WithDetails(
		append(details, &errdetails.ErrorInfo{Domain: "fanoutd.github.io", Reason: reason})...)
	if err != nil {
		panic(err) // does not happen: the details can be marshalled
	}
	return st.Err()
}

// RetryIn is a detail of errors: the client should not retry before this time is over.
func RetryIn(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

// Unavailable returns the error of a server that is not ready.
func Unavailable(retry time.Duration) error {
	return Refusal(codes.Unavailable, "NOT_READY", RetryIn(retry))
}
