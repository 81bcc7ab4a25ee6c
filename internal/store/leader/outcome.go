package leader

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NotAppliedError is the error of a write that was not applied, and never will be.
type NotAppliedError struct{ Err error }

// Error implements error.
func (e *NotAppliedError) Error() string { return fmt.Sprintf("the write was not applied: %v", e.Err) }

// Unwrap returns why the last attempt has failed.
func (e *NotAppliedError) Unwrap() error { return e.Err }

// GRPCStatus makes the error UNAVAILABLE.
func (e *NotAppliedError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, e.Error())
}

// UnknownOutcomeError is the error of a write that may have been applied, or may be applied later.
type UnknownOutcomeError struct{ Err error }

// Error implements error.
func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("the write may have been applied: %v", e.Err)
}

// Unwrap returns the error of etcd or of the connection.
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// GRPCStatus makes the error UNAVAILABLE.
func (e *UnknownOutcomeError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, e.Error())
}

// droppedMessage is the message of raft.ErrProposalDropped, which etcd passes on with the code UNKNOWN.
// Raft has not appended the proposal: it has no leader, or hands the leadership over.
const droppedMessage = "raft proposal dropped"

// notProposed are the messages of the errors with which etcd refuses a request before it proposes it, for
// a reason that passes. etcd's checks and Raft's are the only ones that use these messages.
var notProposed = map[string]bool{
	droppedMessage:                                  true,
	message(rpctypes.ErrGRPCNoLeader):               true,
	message(rpctypes.ErrTooManyRequests):            true, // too many entries wait to be applied
	message(rpctypes.ErrGRPCNotCapable):             true, // the member has just started
	message(rpctypes.ErrGRPCNotSupportedForLearner): true,
}

// The reason, and its domain, of a write that a member has not proposed because its cluster is being formed. fanoutd's
// own API has the same.
const (
	formingReason = "CLUSTER_FORMING"
	formingDomain = "fanoutd.github.io"
)

// Forming returns the error with which a member refuses a write as long as its cluster is being formed. Another member
// may already count enough voters and send its writes there: its [Client] knows by the reason that they were not proposed.
func Forming(text string) error {
	s := status.New(codes.Unavailable, text)
	detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: formingReason, Domain: formingDomain})
	if err != nil { // it cannot be encoded
		return s.Err()
	}
	return detailed.Err()
}

// isForming reports whether a member has refused a write with [Forming].
func isForming(err error) bool {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == formingReason && info.GetDomain() == formingDomain {
			return true
		}
	}
	return false
}

func message(err error) string { return rpctypes.ErrorDesc(err) }

// refusals are the codes with which etcd, or gRPC in front of it, refuses a write for good. Its state then
// does not contain the write. All other codes may come from a timeout, or from a connection that broke.
var refusals = map[codes.Code]bool{
	codes.InvalidArgument:    true,
	codes.NotFound:           true,
	codes.AlreadyExists:      true,
	codes.PermissionDenied:   true,
	codes.ResourceExhausted:  true,
	codes.FailedPrecondition: true,
	codes.OutOfRange:         true,
	codes.Unimplemented:      true,
	codes.DataLoss:           true, // the alarm of a corrupt database
	codes.Unauthenticated:    true,
}

// judge returns the error of a write that was sent, as the caller of the client gets it: nil, a refusal,
// a [*NotAppliedError] or an [*UnknownOutcomeError].
func judge(err error) error {
	switch {
	case err == nil:
		return nil
	case notProposed[message(err)], isForming(err):
		return &NotAppliedError{err}
	case refusals[status.Code(err)]:
		return err
	}
	return &UnknownOutcomeError{err}
}
