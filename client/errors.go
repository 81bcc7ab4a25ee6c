package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
)

// ErrUnknownValue is why a write of [Object.AsValue] fails if the client does not know
// the value of the object: the watch omitted it, the deletion named only the key, or
// the server could not decrypt it. Nothing was sent. Get the object first, or set
// Value.Data.
var ErrUnknownValue = errors.New("the value of the object is unknown: it was omitted or could not be decrypted")

// Reason is the stable name of the cause of a failed request. Reasons are errors, so
// errors.Is works with them. docs/reference/errors.md describes each one. A newer server may send
// reasons that are not listed here.
type Reason string

// Error implements error.
func (r Reason) Error() string { return string(r) }

// The reasons. Where a comment names methods, only they fail with the reason.
const (
	// ErrInvalidRequest: the request breaks a rule of the protocol, and nothing was
	// done. [Error.Violations] lists the rules.
	ErrInvalidRequest Reason = "INVALID_REQUEST"
	// ErrUnknownResource: the server has no such resource.
	ErrUnknownResource Reason = "UNKNOWN_RESOURCE"
	// ErrWatchNotFound (Report): this server has no such watch, or the watch has ended.
	ErrWatchNotFound Reason = "WATCH_NOT_FOUND"
	// ErrWatchIDInUse (Subscribe): another watch of the stream has the id.
	ErrWatchIDInUse Reason = "WATCH_ID_IN_USE"
	// ErrNotFound (Get): there is no object with this key at the revision in the
	// metadata entry "revision".
	ErrNotFound Reason = "KEY_NOT_FOUND"
	// ErrRevisionInFuture: etcd has not reached the revision.
	ErrRevisionInFuture Reason = "REVISION_IN_FUTURE"
	// ErrRevisionNotReached: this server did not reach the revision in time.
	ErrRevisionNotReached Reason = "REVISION_NOT_REACHED"
	// ErrRevisionExpired: the state at the revision is no longer known.
	ErrRevisionExpired Reason = "REVISION_EXPIRED"
	// ErrPageTokenExpired (List): the state at which the list began is no longer known.
	ErrPageTokenExpired Reason = "PAGE_TOKEN_EXPIRED"
	// ErrPositionExpired (Watch with [EveryEvent]): some events after the position are
	// no longer known.
	ErrPositionExpired Reason = "POSITION_EXPIRED"
	// ErrEpochChanged (Watch with [EveryEvent]): etcd was replaced, or restored from a
	// backup.
	ErrEpochChanged Reason = "EPOCH_CHANGED"
	// ErrPreconditionFailed (writes): a [Precondition] did not hold, and nothing was
	// written.
	ErrPreconditionFailed Reason = "PRECONDITION_FAILED"
	// ErrOpaqueValue (puts): the present value is one that the server cannot decode or decrypt,
	// and nothing was written. [OverwriteOpaque] replaces it.
	ErrOpaqueValue Reason = "OPAQUE_VALUE"
	// ErrValueRefused (writes): the validation rules of the resource refuse the write, and nothing was
	// written. [Error.Violations] has the faults.
	ErrValueRefused Reason = "VALUE_REFUSED"
	// ErrWriteContended (puts): other servers changed the object each time that the server
	// tried to write it, and nothing was written.
	ErrWriteContended Reason = "WRITE_CONTENDED"
	// ErrWriteTooLarge (writes): etcd does not accept a write of this size, and nothing
	// was written.
	ErrWriteTooLarge Reason = "WRITE_TOO_LARGE"
	// ErrNoHistory ([Resource.History]): the resource has no history.
	ErrNoHistory Reason = "NO_HISTORY"
	// ErrNotReady: the server is still loading the resource.
	ErrNotReady Reason = "NOT_READY"
	// ErrStoreUnavailable: etcd does not answer. A write may have been applied.
	ErrStoreUnavailable Reason = "STORE_UNAVAILABLE"
	// ErrClusterForming (writes): too few servers of the cluster vote yet. Nothing was written.
	ErrClusterForming Reason = "CLUSTER_FORMING"
	// ErrWriteNotApplied (writes): etcd did not answer before the write was sent, or has no leader. Nothing was written.
	ErrWriteNotApplied Reason = "WRITE_NOT_APPLIED"
	// ErrNoCluster: the server is not one of a cluster, so it has no members to show or to change.
	ErrNoCluster Reason = "NO_CLUSTER"
	// ErrClusterUnsafe: the state of the cluster does not allow the change. The message says what to do
	// instead.
	ErrClusterUnsafe Reason = "CLUSTER_UNSAFE"
	// ErrMemberNotFound: the cluster has no member of this name.
	ErrMemberNotFound Reason = "MEMBER_NOT_FOUND"
	// ErrStoreFull (writes): etcd has no space left.
	ErrStoreFull Reason = "STORE_FULL"
	// ErrDraining: the server is stopping, or an operator ended the watch.
	ErrDraining Reason = "DRAINING"
	// ErrUnauthenticated: the credentials are missing, wrong or no longer valid.
	ErrUnauthenticated Reason = "UNAUTHENTICATED"
	// ErrPermissionDenied: the caller lacks the right, and nothing was done.
	ErrPermissionDenied Reason = "PERMISSION_DENIED"
	// ErrIssuerUnavailable: the server does not have the keys of the JWT's issuer yet.
	ErrIssuerUnavailable Reason = "ISSUER_UNAVAILABLE"
	// ErrLimitReached: the server has reached a limit, and nothing was done. The metadata
	// entry "limit_name" names the limit by its setting, such as "max-watchers" or
	// "max-watchers-per-client".
	ErrLimitReached Reason = "LIMIT_REACHED"
	// ErrRateLimited: this client sends requests too fast, and nothing was done.
	ErrRateLimited Reason = "RATE_LIMITED"
	// ErrRequestTooLarge: the request is too large, and nothing was done.
	ErrRequestTooLarge Reason = "REQUEST_TOO_LARGE"
	// ErrInternal: the server has a bug. A write may have been applied.
	ErrInternal Reason = "INTERNAL"
)

// errorDomain is the ErrorInfo domain of the reasons.
const errorDomain = "fanoutd.github.io"

// Error is the error of a failed request. errors.Is compares it with a [Reason], with
// context.Canceled and with context.DeadlineExceeded.
type Error struct {
	// Code is the gRPC code. Decide by it only where the reason is unknown or empty.
	Code codes.Code
	// Reason is the cause. It is empty if the error does not come from fanoutd, for
	// example because no server could be reached.
	Reason Reason
	// Message is for people.
	Message string
	// Metadata has details for programs; docs/reference/errors.md lists the entries.
	Metadata map[string]string
	// RetryAfter is how long to wait before the same request may succeed; 0 if the
	// server does not say.
	RetryAfter time.Duration
	// Violations are the faults of an invalid request.
	Violations []Violation

	status *status.Status
}

// Violation is one fault of a request.
type Violation struct {
	Field       string // the path of the field, such as operations[3].put.key
	Description string
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Reason != "":
		return fmt.Sprintf("%s (%s)", e.Message, e.Reason)
	case e.Code == codes.Unknown: // says nothing
		return e.Message
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// Unwrap returns the reason, or the error of the context that ended the request.
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

// GRPCStatus returns the status as the client received it.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// ErrorOf converts an error of gRPC into an [*Error], for requests to other services
// through [Client.Conn]. It returns nil for nil.
func ErrorOf(err error) error { return errorOf(err) }

// ErrorOfStatus converts a status that is part of a message, such as that of
// AdminService.ListWatchers. It returns nil for nil.
func ErrorOfStatus(s *statuspb.Status) *Error {
	if s == nil {
		return nil
	}
	return errorOfStatus(status.FromProto(s))
}

func errorOf(err error) error {
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return errorOfStatus(status.Convert(err))
}

func errorOfStatus(st *status.Status) *Error {
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

// checkUTF8 returns the error that the server would give to a request with a string
// that is not UTF-8, or nil if there is no such string. gRPC cannot encode such a
// request, and its own error would not name the field.
func checkUTF8(req proto.Message) error {
	bad := &errdetails.BadRequest{}
	refuse := func(path protopath.Path, description string) {
		// The first step of the path is the request itself.
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: strings.TrimPrefix(path[1:].String(), "."), Description: description,
		})
	}
	// The function never fails, so Range does not either.
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
		return err // cannot happen: the details contain only valid UTF-8
	}
	return errorOf(st.Err())
}

// isUTF8 reports whether v is valid UTF-8, or is not a string.
func isUTF8(v any) bool {
	s, isString := v.(string)
	return !isString || utf8.ValidString(s)
}
