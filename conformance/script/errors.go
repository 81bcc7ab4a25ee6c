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
	return refusal(code, append(details, &errdetails.ErrorInfo{Domain: "fanoutd.github.io", Reason: reason})...)
}

// OtherRefusal returns an error of another service than fanoutd, which has reasons in a domain of its own.
func OtherRefusal(code codes.Code, domain, reason string) error {
	return refusal(code, &errdetails.ErrorInfo{Domain: domain, Reason: reason})
}

func refusal(code codes.Code, details ...protoadapt.MessageV1) error {
	st, err := status.New(code, "refused by the script").WithDetails(details...)
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
