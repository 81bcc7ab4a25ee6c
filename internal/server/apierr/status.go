package apierr

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/object"
)

// retryDelay is the default hint of when a retry may succeed.
const retryDelay = time.Second

// MaxEchoBytes limits each text that a status repeats from the request: a whole key fits. A
// status is in the trailer of a response, and many clients (Java, and all that use the C++
// core) accept no more than 8 KiB there.
const MaxEchoBytes = object.MaxKeyBytes

// maxTokenEchoBytes is the longest page token that an error carries. A token repeats selectors
// and keys, and would be useless if it were clipped.
const maxTokenEchoBytes = 4 << 10

// answer is the content of a status for an error.
type answer struct {
	reason   Reason
	metadata map[string]string
	message  string        // default: the text of the error
	after    time.Duration // when a later try may succeed; default: retryDelay
	atOnce   bool          // a try at once may succeed
}

// answerFor is the only table from errors to reasons.
func answerFor(err error) answer {
	var (
		invalid     InvalidError
		unknown     UnknownResourceError
		notFound    *NotFoundError
		pageExpired *PageExpiredError
		expired     *ExpiredError
		lost        *catchup.LostError
		epoch       *catchup.EpochError
		conflict    *object.ConflictError
		opaque      *OpaqueError
		value       *ValueRefusedError
		future      *cacher.FutureError
		behind      *cacher.BehindError
		refused     *access.RefusedError
		limit       *LimitError
		space       *object.SpaceError
		forming     *object.FormingError
		waiting     *WaitingError
		unsafe      *manage.UnsafeError
		noMember    *manage.UnknownMemberError
		record      *object.RecordTooLargeError
		operations  *object.TooManyOperationsError
		denied      *DeniedError
		foreign     *ForeignWatchError
	)
	switch {
	case errors.As(err, &denied) && denied.Caller.Anonymous():
		return answer{reason: ReasonUnauthenticated}
	case errors.As(err, &denied):
		return answer{reason: ReasonPermissionDenied, metadata: map[string]string{
			"verb": denied.Question.Verb.String(), "resource": Clip(denied.Question.Resource, MaxEchoBytes),
		}}
	case errors.As(err, &foreign) && foreign.Caller.Anonymous():
		return answer{reason: ReasonUnauthenticated}
	case errors.As(err, &foreign):
		return answer{reason: ReasonPermissionDenied, metadata: map[string]string{"verb": "report", "resource": foreign.Resource}}
	case errors.As(err, &invalid):
		return answer{reason: ReasonInvalidRequest}
	case errors.As(err, &unknown):
		return answer{reason: ReasonUnknownResource, metadata: map[string]string{"resource": Clip(string(unknown), MaxEchoBytes)}}
	case errors.As(err, &notFound):
		return answer{reason: ReasonKeyNotFound, metadata: map[string]string{
			"key": Clip(string(notFound.Key), MaxEchoBytes), "revision": revision(notFound.Revision),
		}}
	case errors.Is(err, ErrUnknownWatch):
		return answer{reason: ReasonWatchNotFound}
	case errors.Is(err, ErrWatchIDInUse):
		return answer{reason: ReasonWatchIDInUse}
	case errors.As(err, &pageExpired):
		metadata := map[string]string{
			"asked_revision": revision(pageExpired.Asked.Revision), "oldest_revision": revision(pageExpired.Oldest),
		}
		if len(pageExpired.Token) <= maxTokenEchoBytes {
			metadata["page_token"] = pageExpired.Token
		}
		return answer{reason: ReasonPageTokenExpired, metadata: metadata}
	case errors.As(err, &expired):
		return answer{reason: ReasonRevisionExpired, metadata: map[string]string{
			"asked_revision": revision(expired.Asked.Revision), "oldest_revision": revision(expired.Oldest),
		}}
	case errors.As(err, &lost):
		return answer{reason: ReasonPositionExpired, metadata: map[string]string{
			"asked_revision": revision(lost.Asked), "oldest_revision": revision(lost.Oldest), "current_revision": revision(lost.Current),
		}}
	case errors.As(err, &epoch):
		return answer{reason: ReasonEpochChanged, metadata: map[string]string{
			"asked_epoch": Clip(string(epoch.Asked), MaxEchoBytes), "current_epoch": string(epoch.Current.Epoch), "current_revision": revision(epoch.Current.Revision),
		}}
	case errors.As(err, &conflict):
		return answer{reason: ReasonPreconditionFailed, metadata: map[string]string{
			"key": Clip(string(conflict.Key), MaxEchoBytes), "expected_revision": revision(conflict.Want),
			"mod_revision": revision(conflict.Have), "revision": revision(conflict.At),
		}}
	case errors.As(err, &opaque):
		return answer{reason: ReasonOpaqueValue, metadata: map[string]string{
			"key": Clip(string(opaque.Key), MaxEchoBytes), "mod_revision": revision(opaque.ModRevision),
		}}
	case errors.As(err, &value):
		return answer{reason: ReasonValueRefused, metadata: map[string]string{"key": Clip(string(value.Key), MaxEchoBytes)}}
	case errors.Is(err, ErrContended), errors.Is(err, object.ErrContended):
		return answer{reason: ReasonWriteContended}
	case errors.As(err, &future):
		return answer{reason: ReasonRevisionInFuture, metadata: map[string]string{
			"asked_revision": revision(future.Asked), "current_revision": revision(future.Current),
		}}
	case errors.As(err, &behind):
		return answer{reason: ReasonRevisionNotReached, metadata: map[string]string{
			"asked_revision": revision(behind.Asked), "current_revision": revision(behind.Have),
		}}
	case errors.As(err, &limit):
		return answer{reason: limit.Name.Reason(), metadata: limit.metadata(), after: limit.RetryAfter}
	case errors.Is(err, cacher.ErrNotReady):
		return answer{reason: ReasonNotReady}
	case errors.As(err, &refused):
		return answer{reason: ReasonUnauthenticated, message: refused.Message}
	case errors.Is(err, access.ErrUnavailable):
		return answer{reason: ReasonIssuerUnavailable}
	// Clients must not see the details of store errors, such as the addresses of etcd.
	case errors.As(err, &space):
		return answer{reason: ReasonStoreFull, message: space.Error()}
	case errors.Is(err, object.ErrNoSpace):
		return answer{reason: ReasonStoreFull, message: object.ErrNoSpace.Error()}
	case errors.As(err, &record):
		return answer{reason: ReasonWriteTooLarge, message: record.Error()}
	case errors.As(err, &operations):
		return answer{reason: ReasonWriteTooLarge, message: operations.Error()}
	case errors.Is(err, ErrNoHistory):
		return answer{reason: ReasonNoHistory}
	case errors.Is(err, object.ErrTooLarge):
		return answer{reason: ReasonWriteTooLarge, message: object.ErrTooLarge.Error()}
	case errors.Is(err, object.ErrNotEmbedded):
		return answer{reason: ReasonNoCluster, message: object.ErrNotEmbedded.Error() + ": manage its members with etcdctl"}
	case errors.Is(err, manage.ErrSingle):
		return answer{reason: ReasonNoCluster}
	case errors.As(err, &unsafe):
		return answer{reason: ReasonClusterUnsafe, message: unsafe.Reason}
	case errors.As(err, &noMember):
		return answer{reason: ReasonMemberNotFound, message: noMember.Error()}
	case errors.As(err, &forming):
		return answer{reason: ReasonClusterForming, message: forming.Error()}
	case errors.Is(err, object.ErrCorrupt):
		return answer{reason: ReasonStoreUnavailable, message: object.ErrCorrupt.Error()}
	case errors.Is(err, object.ErrNotApplied):
		return answer{reason: ReasonWriteNotApplied, message: object.ErrNotApplied.Error()}
	case errors.As(err, &waiting):
		return answer{reason: ReasonClusterForming}
	case errors.Is(err, object.ErrUnavailable):
		return answer{reason: ReasonStoreUnavailable, message: object.ErrUnavailable.Error()}
	case errors.Is(err, ErrEndedByOperator):
		return answer{reason: ReasonDraining}
	case errors.Is(err, ErrDrainedInTurn):
		return answer{reason: ReasonDraining, message: ErrDraining.Error(), atOnce: true}
	case errors.Is(err, ErrDraining), errors.Is(err, dispatch.ErrStopped):
		return answer{reason: ReasonDraining, message: ErrDraining.Error()}
	}
	return answer{reason: ReasonInternal, message: "internal error"}
}

// ReasonOf returns the reason for an error.
func ReasonOf(err error) Reason { return answerFor(err).reason }

func revision(r object.Revision) string { return strconv.FormatInt(int64(r), 10) }

// Status returns err, which is not nil, as a gRPC status error. Two kinds of error have no
// reason: statuses that gRPC made, and the end of the caller's own context. An error that only
// wraps one of these comes from the store, and gets the reason of the store error.
func Status(ctx context.Context, err error) error {
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		return err
	}
	a := answerFor(err)
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if a.reason == ReasonInternal && ended && ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if a.message == "" {
		a.message = err.Error()
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: Domain, Reason: string(a.reason), Metadata: a.metadata}}
	if invalid, ok := errors.AsType[InvalidError](err); ok {
		details = append(details, &errdetails.BadRequest{FieldViolations: invalid})
	}
	if value, ok := errors.AsType[*ValueRefusedError](err); ok {
		details = append(details, &errdetails.BadRequest{FieldViolations: value.Violations})
	}
	meaning := meanings[a.reason]
	if meaning.retry {
		delay := cmp.Or(a.after, retryDelay)
		if a.atOnce {
			delay = 0
		}
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	}
	st := status.New(meaning.code, Clip(a.message, MaxEchoBytes))
	detailed, detailsErr := st.WithDetails(details...)
	if detailsErr != nil {
		return st.Err()
	}
	return detailed.Err()
}

// Clip returns s, or if it is longer than limit bytes its beginning and an ellipsis. It never
// cuts a character, so the result is valid UTF-8 if s is.
func Clip(s string, limit int) string {
	const ellipsis = "..."
	if len(s) <= limit {
		return s
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}
