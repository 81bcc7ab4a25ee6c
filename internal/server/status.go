package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Domain is the domain of the reasons in google.rpc.ErrorInfo.
const Domain = "fanoutd"

// Reason says why a request failed, in google.rpc.ErrorInfo. Reasons are part of
// the protocol: they are never renamed.
type Reason string

// The reasons. docs/errors.md describes them.
const (
	ReasonInvalidRequest     Reason = "INVALID_REQUEST"
	ReasonUnknownResource    Reason = "UNKNOWN_RESOURCE"
	ReasonKeyNotFound        Reason = "KEY_NOT_FOUND"
	ReasonRevisionInFuture   Reason = "REVISION_IN_FUTURE"
	ReasonRevisionNotReached Reason = "REVISION_NOT_REACHED"
	ReasonPageTokenExpired   Reason = "PAGE_TOKEN_EXPIRED"
	ReasonPreconditionFailed Reason = "PRECONDITION_FAILED"
	ReasonWriteTooLarge      Reason = "WRITE_TOO_LARGE"
	ReasonNotReady           Reason = "NOT_READY"
	ReasonStoreUnavailable   Reason = "STORE_UNAVAILABLE"
	ReasonStoreFull          Reason = "STORE_FULL"
	ReasonDraining           Reason = "DRAINING"
	ReasonInternal           Reason = "INTERNAL"
)

// retryDelay is the hint given where a later try may succeed.
const retryDelay = time.Second

// invalidError says what is wrong with a request, field by field.
type invalidError []*errdetails.BadRequest_FieldViolation

func (e invalidError) Error() string {
	violations := make([]string, len(e))
	for i, v := range e {
		violations[i] = v.GetField() + " " + v.GetDescription()
	}
	return "invalid request: " + strings.Join(violations, "; ")
}

// unknownResourceError names a resource that is not configured.
type unknownResourceError string

func (e unknownResourceError) Error() string {
	return fmt.Sprintf("there is no resource %q", string(e))
}

// notFoundError says that a key does not exist.
type notFoundError struct {
	key object.Key
	at  object.Revision
}

func (e *notFoundError) Error() string {
	return fmt.Sprintf("key %q does not exist at revision %d", e.key, e.at)
}

// pageExpiredError says that a list cannot be continued at its revision.
type pageExpiredError struct {
	at     object.Revision
	oldest object.Revision
	token  string // continues at the newest revision
}

func (e *pageExpiredError) Error() string {
	return fmt.Sprintf("the list cannot be continued at revision %d, the oldest still known is %d", e.at, e.oldest)
}

// errDraining ends streams and requests while the server stops.
var errDraining = errors.New("the server is stopping")

// answer is what a client is told about an error.
type answer struct {
	code     codes.Code
	reason   Reason
	retry    bool
	metadata map[string]string
}

// answerTo is the only table from errors to statuses.
func answerTo(err error) answer {
	var (
		invalid     invalidError
		unknown     unknownResourceError
		notFound    *notFoundError
		pageExpired *pageExpiredError
		conflict    *object.ConflictError
		future      *cacher.FutureError
		behind      *cacher.BehindError
	)
	switch {
	case errors.As(err, &invalid):
		return answer{code: codes.InvalidArgument, reason: ReasonInvalidRequest}
	case errors.As(err, &unknown):
		return answer{codes.NotFound, ReasonUnknownResource, false, map[string]string{"resource": string(unknown)}}
	case errors.As(err, &notFound):
		return answer{codes.NotFound, ReasonKeyNotFound, false, map[string]string{
			"key": string(notFound.key), "revision": revision(notFound.at),
		}}
	case errors.As(err, &pageExpired):
		return answer{codes.OutOfRange, ReasonPageTokenExpired, false, map[string]string{
			"asked_revision": revision(pageExpired.at), "oldest_revision": revision(pageExpired.oldest), "page_token": pageExpired.token,
		}}
	case errors.As(err, &conflict):
		return answer{codes.FailedPrecondition, ReasonPreconditionFailed, false, map[string]string{
			"key": string(conflict.Key), "expected_revision": revision(conflict.Want),
			"mod_revision": revision(conflict.Have), "revision": revision(conflict.At),
		}}
	case errors.As(err, &future):
		return answer{codes.OutOfRange, ReasonRevisionInFuture, false, map[string]string{
			"asked_revision": revision(future.Asked), "current_revision": revision(future.Current),
		}}
	case errors.As(err, &behind):
		return answer{codes.Unavailable, ReasonRevisionNotReached, true, map[string]string{
			"asked_revision": revision(behind.Asked), "current_revision": revision(behind.Have),
		}}
	case errors.Is(err, cacher.ErrNotReady):
		return answer{code: codes.Unavailable, reason: ReasonNotReady, retry: true}
	case errors.Is(err, object.ErrNoSpace):
		return answer{code: codes.ResourceExhausted, reason: ReasonStoreFull}
	case errors.Is(err, object.ErrTooLarge):
		return answer{code: codes.InvalidArgument, reason: ReasonWriteTooLarge}
	case errors.Is(err, object.ErrUnavailable):
		return answer{code: codes.Unavailable, reason: ReasonStoreUnavailable, retry: true}
	case errors.Is(err, errDraining), errors.Is(err, dispatch.ErrStopped):
		return answer{code: codes.Unavailable, reason: ReasonDraining, retry: true}
	}
	return answer{code: codes.Internal, reason: ReasonInternal}
}

func revision(r object.Revision) string { return strconv.FormatInt(int64(r), 10) }

// statusOf returns err as a gRPC status error. One that is a status already, or
// the end of the caller's own context, stays what it is.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	a := answerTo(err)
	message := err.Error()
	if a.reason == ReasonInternal {
		message = "internal error" // what went wrong inside is for the log
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: Domain, Reason: string(a.reason), Metadata: a.metadata}}
	if invalid, ok := errors.AsType[invalidError](err); ok {
		details = append(details, &errdetails.BadRequest{FieldViolations: invalid})
	}
	if a.retry {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryDelay)})
	}
	st, detailsErr := status.New(a.code, message).WithDetails(details...)
	if detailsErr != nil {
		return status.Error(a.code, message)
	}
	return st.Err()
}

// The interceptors below turn what the handlers return into statuses.

func (s *Server) unaryStatus(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	return resp, s.edge(ctx, err)
}

func (s *Server) streamStatus(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return s.edge(stream.Context(), handler(srv, stream))
}

// edge is where an error leaves the program: those that tell the client nothing
// are logged here, and only here.
func (s *Server) edge(ctx context.Context, err error) error {
	st := statusOf(err)
	if code := status.Code(st); code == codes.Internal || code == codes.Unknown {
		s.log.ErrorContext(ctx, "request failed", "error", err)
	}
	return st
}
