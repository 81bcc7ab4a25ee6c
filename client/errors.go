package client

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
)

// Reason is the stable word by which the server says why a request failed. The
// reasons are errors themselves, for errors.Is; docs/errors.md says more of each.
// A newer server may give others than those that are named here.
type Reason string

// Error implements error.
func (r Reason) Error() string { return string(r) }

// The reasons.
const (
	// ErrInvalidRequest: the request breaks a rule of the protocol; nothing was
	// done. [Error.Violations] says which.
	ErrInvalidRequest Reason = "INVALID_REQUEST"
	// ErrUnknownResource: the server has no such resource.
	ErrUnknownResource Reason = "UNKNOWN_RESOURCE"
	// ErrNotFound: Get: there is no object with this key, as of the metadata entry
	// "revision".
	ErrNotFound Reason = "KEY_NOT_FOUND"
	// ErrRevisionInFuture: the revision is one that etcd itself has not reached.
	ErrRevisionInFuture Reason = "REVISION_IN_FUTURE"
	// ErrRevisionNotReached: this server did not reach the revision in time.
	ErrRevisionNotReached Reason = "REVISION_NOT_REACHED"
	// ErrRevisionExpired: the state at the revision is no longer known.
	ErrRevisionExpired Reason = "REVISION_EXPIRED"
	// ErrPageTokenExpired: the state that the list began with is no longer known.
	ErrPageTokenExpired Reason = "PAGE_TOKEN_EXPIRED"
	// ErrPositionExpired: Watch with [EveryEvent]: not every event after the
	// position is known any more.
	ErrPositionExpired Reason = "POSITION_EXPIRED"
	// ErrEpochChanged: Watch with [EveryEvent]: etcd is another one now, or was
	// restored from a backup.
	ErrEpochChanged Reason = "EPOCH_CHANGED"
	// ErrPreconditionFailed: a write: a key is not at the revision that was asked
	// for; nothing was written.
	ErrPreconditionFailed Reason = "PRECONDITION_FAILED"
	// ErrWriteTooLarge: a write: more than etcd takes at once; nothing was written.
	ErrWriteTooLarge Reason = "WRITE_TOO_LARGE"
	// ErrNotReady: the server is still loading the resource.
	ErrNotReady Reason = "NOT_READY"
	// ErrStoreUnavailable: etcd does not answer. A write may have been applied.
	ErrStoreUnavailable Reason = "STORE_UNAVAILABLE"
	// ErrStoreFull: a write: etcd has no space left.
	ErrStoreFull Reason = "STORE_FULL"
	// ErrDraining: the server is stopping, or an operator has ended the watch.
	ErrDraining Reason = "DRAINING"
	// ErrUnauthenticated: the request shows no credentials, or some that are not good,
	// or no longer.
	ErrUnauthenticated Reason = "UNAUTHENTICATED"
	// ErrPermissionDenied: whoever asks may not do that. Nothing was done.
	ErrPermissionDenied Reason = "PERMISSION_DENIED"
	// ErrIssuerUnavailable: the server does not know the keys of the issuer of JWTs yet.
	ErrIssuerUnavailable Reason = "ISSUER_UNAVAILABLE"
	// ErrTooManyWatchers: Watch: the server has as many watches as it may have.
	ErrTooManyWatchers Reason = "TOO_MANY_WATCHERS"
	// ErrTooManyWatchersOfClient: Watch: this client has as many as it may have.
	ErrTooManyWatchersOfClient Reason = "TOO_MANY_WATCHERS_OF_CLIENT"
	// ErrTooManySelectors: Watch: the server has as many different selectors as it may
	// have.
	ErrTooManySelectors Reason = "TOO_MANY_SELECTORS"
	// ErrTooManySelectorsOfClient: Watch: this client has as many as it may have.
	ErrTooManySelectorsOfClient Reason = "TOO_MANY_SELECTORS_OF_CLIENT"
	// ErrTooManySnapshots: Watch: the turn to be sent a snapshot did not come in time.
	ErrTooManySnapshots Reason = "TOO_MANY_SNAPSHOTS"
	// ErrTooManyLists: List: there was no room for the response in time.
	ErrTooManyLists Reason = "TOO_MANY_LISTS"
	// ErrTooManyRequests: there was no room for the request in time; nothing was done.
	ErrTooManyRequests Reason = "TOO_MANY_REQUESTS"
	// ErrRateLimited: this client asks too often; nothing was done.
	ErrRateLimited Reason = "RATE_LIMITED"
	// ErrRequestTooLarge: the request is too large; nothing was done.
	ErrRequestTooLarge Reason = "REQUEST_TOO_LARGE"
	// ErrInternal: a bug in the server. A write may have been applied.
	ErrInternal Reason = "INTERNAL"
)

// errorDomain is the domain of the reasons.
const errorDomain = "fanoutd.github.io"

// Error is what a request failed with. errors.Is compares it with a [Reason], and
// with context.Canceled and context.DeadlineExceeded.
type Error struct {
	// Code is gRPC's code, for reasons that are not known, and where there is none:
	// when there is no server to give one.
	Code codes.Code
	// Reason is why; empty where it was not fanoutd who said no.
	Reason Reason
	// Message is for people.
	Message string
	// Metadata is what a program needs to go on; docs/errors.md names the entries.
	Metadata map[string]string
	// RetryAfter is when the same request may succeed; 0 if the server does not say.
	RetryAfter time.Duration
	// Violations are the faults of an invalid request.
	Violations []Violation

	status *status.Status
}

// Violation is one fault of a request.
type Violation struct {
	Field       string // its path, such as operations[3].put.key
	Description string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("%s (%s)", e.Message, e.Reason)
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// Unwrap returns the reason, or the error of a context that ended the request.
func (e *Error) Unwrap() error {
	switch {
	case e.Reason != "":
		return e.Reason
	case e.Code == codes.Canceled:
		return context.Canceled
	case e.Code == codes.DeadlineExceeded:
		return context.DeadlineExceeded
	}
	return nil
}

// GRPCStatus returns the status as it was received.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// errorOf makes an [*Error] of what gRPC returned; nil of nil.
func errorOf(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	e := &Error{Code: st.Code(), Message: st.Message(), status: st}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == errorDomain {
				e.Reason, e.Metadata = Reason(d.GetReason()), d.GetMetadata()
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{Field: v.GetField(), Description: v.GetDescription()})
			}
		}
	}
	return e
}

// ErrorOf returns what a request of another service through [Client.Conn] has failed
// with as an [*Error]; nil of nil.
func ErrorOf(err error) error { return errorOf(err) }

// invalid returns what the server would answer to a request with a text that is not
// UTF-8; nil if there is none. Such a request cannot be sent: gRPC would only say that
// it cannot be encoded, with a code that says nothing of whose fault it is.
func invalid(req proto.Message) error {
	bad := &errdetails.BadRequest{}
	refuse := func(path protopath.Path, description string) {
		// The first step is the request itself.
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: strings.TrimPrefix(path[1:].String(), "."), Description: description,
		})
	}
	// Nothing in here fails.
	_ = protorange.Options{Stable: true}.Range(req.ProtoReflect(), func(v protopath.Values) error {
		last := v.Index(-1)
		if last.Step.Kind() == protopath.MapIndexStep && !isUTF8(last.Step.MapIndex().Interface()) {
			refuse(v.Path[:len(v.Path)-1], "has a name that is not valid UTF-8")
		}
		if !isUTF8(last.Value.Interface()) {
			refuse(v.Path, "is not valid UTF-8")
		}
		return nil
	}, nil)
	if len(bad.GetFieldViolations()) == 0 {
		return nil
	}
	first := bad.GetFieldViolations()[0]
	st, err := status.New(codes.InvalidArgument, "invalid request: "+first.GetField()+" "+first.GetDescription()).
		WithDetails(&errdetails.ErrorInfo{Domain: errorDomain, Reason: string(ErrInvalidRequest)}, bad)
	if err != nil {
		return err // the names of fields, and the texts in here, can be encoded
	}
	return errorOf(st.Err())
}

func isUTF8(v any) bool {
	s, isText := v.(string)
	return !isText || utf8.ValidString(s)
}
