package apierr

import "google.golang.org/grpc/codes"

// Domain is the domain of the reasons in google.rpc.ErrorInfo.
const Domain = "fanoutd.github.io"

// Reason is why a request failed, in google.rpc.ErrorInfo. Reasons are part of the protocol,
// so they are never renamed.
type Reason string

// The reasons. docs/errors.md describes them for authors of clients.
const (
	ReasonInvalidRequest     Reason = "INVALID_REQUEST"
	ReasonUnknownResource    Reason = "UNKNOWN_RESOURCE"
	ReasonKeyNotFound        Reason = "KEY_NOT_FOUND"
	ReasonRevisionInFuture   Reason = "REVISION_IN_FUTURE"
	ReasonRevisionNotReached Reason = "REVISION_NOT_REACHED"
	ReasonRevisionExpired    Reason = "REVISION_EXPIRED"
	ReasonPageTokenExpired   Reason = "PAGE_TOKEN_EXPIRED"
	ReasonPositionExpired    Reason = "POSITION_EXPIRED"
	ReasonEpochChanged       Reason = "EPOCH_CHANGED"
	ReasonPreconditionFailed Reason = "PRECONDITION_FAILED"
	ReasonWriteTooLarge      Reason = "WRITE_TOO_LARGE"
	ReasonNotReady           Reason = "NOT_READY"
	ReasonStoreUnavailable   Reason = "STORE_UNAVAILABLE"
	ReasonStoreFull          Reason = "STORE_FULL"
	ReasonDraining           Reason = "DRAINING"
	ReasonUnauthenticated    Reason = "UNAUTHENTICATED"
	ReasonIssuerUnavailable  Reason = "ISSUER_UNAVAILABLE"
	ReasonPermissionDenied   Reason = "PERMISSION_DENIED"
	ReasonInternal           Reason = "INTERNAL"

	ReasonTooManyWatchers          Reason = "TOO_MANY_WATCHERS"
	ReasonTooManyWatchersOfClient  Reason = "TOO_MANY_WATCHERS_OF_CLIENT"
	ReasonTooManySelectors         Reason = "TOO_MANY_SELECTORS"
	ReasonTooManySelectorsOfClient Reason = "TOO_MANY_SELECTORS_OF_CLIENT"
	ReasonTooManySnapshots         Reason = "TOO_MANY_SNAPSHOTS"
	ReasonTooManyLists             Reason = "TOO_MANY_LISTS"
	ReasonTooManyRequests          Reason = "TOO_MANY_REQUESTS"
	ReasonRateLimited              Reason = "RATE_LIMITED"
	ReasonRequestTooLarge          Reason = "REQUEST_TOO_LARGE"
)

// meaning is what all errors with a reason have in common.
type meaning struct {
	code  codes.Code
	retry bool // a later try of the same request may succeed: RetryInfo says so
}

var meanings = map[Reason]meaning{
	ReasonInvalidRequest:     {code: codes.InvalidArgument},
	ReasonUnknownResource:    {code: codes.NotFound},
	ReasonKeyNotFound:        {code: codes.NotFound},
	ReasonRevisionInFuture:   {code: codes.OutOfRange},
	ReasonRevisionNotReached: {code: codes.Unavailable, retry: true},
	ReasonRevisionExpired:    {code: codes.OutOfRange},
	ReasonPageTokenExpired:   {code: codes.OutOfRange},
	ReasonPositionExpired:    {code: codes.OutOfRange},
	ReasonEpochChanged:       {code: codes.OutOfRange},
	ReasonPreconditionFailed: {code: codes.FailedPrecondition},
	ReasonWriteTooLarge:      {code: codes.InvalidArgument},
	ReasonNotReady:           {code: codes.Unavailable, retry: true},
	ReasonStoreUnavailable:   {code: codes.Unavailable, retry: true},
	ReasonStoreFull:          {code: codes.ResourceExhausted},
	ReasonDraining:           {code: codes.Unavailable, retry: true},
	ReasonUnauthenticated:    {code: codes.Unauthenticated},
	ReasonIssuerUnavailable:  {code: codes.Unavailable, retry: true},
	ReasonPermissionDenied:   {code: codes.PermissionDenied},
	ReasonInternal:           {code: codes.Internal},

	ReasonTooManyWatchers:          {code: codes.ResourceExhausted, retry: true},
	ReasonTooManyWatchersOfClient:  {code: codes.ResourceExhausted, retry: true},
	ReasonTooManySelectors:         {code: codes.ResourceExhausted, retry: true},
	ReasonTooManySelectorsOfClient: {code: codes.ResourceExhausted, retry: true},
	ReasonTooManySnapshots:         {code: codes.ResourceExhausted, retry: true},
	ReasonTooManyLists:             {code: codes.ResourceExhausted, retry: true},
	ReasonTooManyRequests:          {code: codes.ResourceExhausted, retry: true},
	ReasonRateLimited:              {code: codes.ResourceExhausted, retry: true},
	ReasonRequestTooLarge:          {code: codes.ResourceExhausted},
}
