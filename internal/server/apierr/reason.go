package apierr

import "google.golang.org/grpc/codes"

// Domain is the domain of the reasons in google.rpc.ErrorInfo.
const Domain = "fanoutd.github.io"

// Reason is why a request failed, in google.rpc.ErrorInfo. Reasons are part of the protocol,
// so they are never renamed.
type Reason string

// The reasons. docs/reference/errors.md describes them for authors of clients.
const (
	ReasonInvalidRequest     Reason = "INVALID_REQUEST"
	ReasonUnknownResource    Reason = "UNKNOWN_RESOURCE"
	ReasonKeyNotFound        Reason = "KEY_NOT_FOUND"
	ReasonWatchNotFound      Reason = "WATCH_NOT_FOUND"
	ReasonWatchIDInUse       Reason = "WATCH_ID_IN_USE"
	ReasonRevisionInFuture   Reason = "REVISION_IN_FUTURE"
	ReasonRevisionNotReached Reason = "REVISION_NOT_REACHED"
	ReasonRevisionExpired    Reason = "REVISION_EXPIRED"
	ReasonPageTokenExpired   Reason = "PAGE_TOKEN_EXPIRED"
	ReasonPositionExpired    Reason = "POSITION_EXPIRED"
	ReasonEpochChanged       Reason = "EPOCH_CHANGED"
	ReasonPreconditionFailed Reason = "PRECONDITION_FAILED"
	ReasonOpaqueValue        Reason = "OPAQUE_VALUE"
	ReasonValueRefused       Reason = "VALUE_REFUSED"
	ReasonWriteContended     Reason = "WRITE_CONTENDED"
	ReasonWriteTooLarge      Reason = "WRITE_TOO_LARGE"
	ReasonNoHistory          Reason = "NO_HISTORY"
	ReasonNotReady           Reason = "NOT_READY"
	ReasonStoreUnavailable   Reason = "STORE_UNAVAILABLE"
	ReasonClusterForming     Reason = "CLUSTER_FORMING"
	ReasonWriteNotApplied    Reason = "WRITE_NOT_APPLIED"
	ReasonNoCluster          Reason = "NO_CLUSTER"
	ReasonClusterUnsafe      Reason = "CLUSTER_UNSAFE"
	ReasonMemberNotFound     Reason = "MEMBER_NOT_FOUND"
	ReasonStoreFull          Reason = "STORE_FULL"
	ReasonDraining           Reason = "DRAINING"
	ReasonUnauthenticated    Reason = "UNAUTHENTICATED"
	ReasonIssuerUnavailable  Reason = "ISSUER_UNAVAILABLE"
	ReasonPermissionDenied   Reason = "PERMISSION_DENIED"
	ReasonInternal           Reason = "INTERNAL"

	ReasonLimitReached    Reason = "LIMIT_REACHED"
	ReasonRateLimited     Reason = "RATE_LIMITED"
	ReasonRequestTooLarge Reason = "REQUEST_TOO_LARGE"
)

// meaning is what all errors with a reason have in common.
type meaning struct {
	code  codes.Code
	retry bool // a later try of the same request may succeed: the error then has RetryInfo
}

var meanings = map[Reason]meaning{
	ReasonInvalidRequest:     {code: codes.InvalidArgument},
	ReasonUnknownResource:    {code: codes.NotFound},
	ReasonKeyNotFound:        {code: codes.NotFound},
	ReasonWatchNotFound:      {code: codes.NotFound},
	ReasonWatchIDInUse:       {code: codes.AlreadyExists},
	ReasonRevisionInFuture:   {code: codes.OutOfRange},
	ReasonRevisionNotReached: {code: codes.Unavailable, retry: true},
	ReasonRevisionExpired:    {code: codes.OutOfRange},
	ReasonPageTokenExpired:   {code: codes.OutOfRange},
	ReasonPositionExpired:    {code: codes.OutOfRange},
	ReasonEpochChanged:       {code: codes.OutOfRange},
	ReasonPreconditionFailed: {code: codes.FailedPrecondition},
	ReasonOpaqueValue:        {code: codes.FailedPrecondition},
	ReasonValueRefused:       {code: codes.InvalidArgument},
	ReasonWriteContended:     {code: codes.Aborted, retry: true},
	ReasonWriteTooLarge:      {code: codes.InvalidArgument},
	ReasonNoHistory:          {code: codes.FailedPrecondition},
	ReasonNotReady:           {code: codes.Unavailable, retry: true},
	ReasonStoreUnavailable:   {code: codes.Unavailable, retry: true},
	ReasonClusterForming:     {code: codes.Unavailable, retry: true},
	ReasonWriteNotApplied:    {code: codes.Unavailable, retry: true},
	ReasonNoCluster:          {code: codes.FailedPrecondition},
	ReasonClusterUnsafe:      {code: codes.FailedPrecondition},
	ReasonMemberNotFound:     {code: codes.NotFound},
	ReasonStoreFull:          {code: codes.ResourceExhausted},
	ReasonDraining:           {code: codes.Unavailable, retry: true},
	ReasonUnauthenticated:    {code: codes.Unauthenticated},
	ReasonIssuerUnavailable:  {code: codes.Unavailable, retry: true},
	ReasonPermissionDenied:   {code: codes.PermissionDenied},
	ReasonInternal:           {code: codes.Internal},

	ReasonLimitReached:    {code: codes.ResourceExhausted, retry: true},
	ReasonRateLimited:     {code: codes.ResourceExhausted, retry: true},
	ReasonRequestTooLarge: {code: codes.ResourceExhausted},
}

// Limit is the name of a limit: the setting of the server that sets it.
type Limit string

// The limits that refuse requests. All but the last three have ReasonLimitReached.
const (
	MaxWatchers           Limit = "max-watchers"
	MaxWatchersPerClient  Limit = "max-watchers-per-client"
	MaxWaits              Limit = "max-waits"
	MaxWaitsPerClient     Limit = "max-waits-per-client"
	MaxSelectors          Limit = "max-selectors"
	MaxSelectorsPerClient Limit = "max-selectors-per-client"
	MaxSnapshots          Limit = "max-snapshots"
	MaxWaitingSnapshots   Limit = "max-waiting-snapshots"
	MaxListMemory         Limit = "max-list-memory"
	MaxRequestMemory      Limit = "max-request-memory"
	MaxRequestRate        Limit = "max-request-rate"
	MaxReportRate         Limit = "max-report-rate"
	MaxRequestSize        Limit = "max-request-size"
)

// Limits are all limits that refuse requests.
var Limits = []Limit{
	MaxWatchers, MaxWatchersPerClient, MaxWaits, MaxWaitsPerClient, MaxSelectors, MaxSelectorsPerClient, MaxSnapshots, MaxWaitingSnapshots,
	MaxListMemory, MaxRequestMemory, MaxRequestRate, MaxReportRate, MaxRequestSize,
}

// Reason returns the reason for a request that is refused because of the limit.
func (l Limit) Reason() Reason {
	switch l {
	case MaxRequestRate, MaxReportRate:
		return ReasonRateLimited
	case MaxRequestSize:
		return ReasonRequestTooLarge
	}
	return ReasonLimitReached
}
