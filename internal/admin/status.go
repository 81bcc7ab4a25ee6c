package admin

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// limitReached is the reason for a request that exceeds a limit. Its metadata names the limit.
const limitReached = "LIMIT_REACHED"

// byReason lists the reasons whose HTTP status differs from that of their gRPC code.
var byReason = map[string]int{
	"PRECONDITION_FAILED": http.StatusPreconditionFailed,
	"OPAQUE_VALUE":        http.StatusConflict,
	"VALUE_REFUSED":       http.StatusUnprocessableEntity,
	"NO_HISTORY":          http.StatusConflict,
	"NO_CLUSTER":          http.StatusConflict,
	"CLUSTER_UNSAFE":      http.StatusConflict,
	"WRITE_TOO_LARGE":     http.StatusRequestEntityTooLarge,
	"STORE_FULL":          http.StatusInsufficientStorage,
	"REVISION_EXPIRED":    http.StatusGone,
	"PAGE_TOKEN_EXPIRED":  http.StatusGone,
	"POSITION_EXPIRED":    http.StatusGone,
	"EPOCH_CHANGED":       http.StatusGone,
	"REQUEST_TOO_LARGE":   http.StatusRequestEntityTooLarge,

	// All clients together exceed a limit, unless it is one per client: see httpStatus.
	limitReached: http.StatusServiceUnavailable,
}

// httpStatus returns the HTTP status of an error.
func httpStatus(st *status.Status) int {
	info := detail[*errdetails.ErrorInfo](st)
	if info.GetReason() == limitReached && strings.HasSuffix(info.GetMetadata()["limit_name"], "-per-client") {
		return http.StatusTooManyRequests
	}
	if s, ok := byReason[info.GetReason()]; ok {
		return s
	}
	return runtime.HTTPStatusFromCode(st.Code())
}

// detail returns the first detail of type T, or its zero value.
func detail[T any](st *status.Status) (d T) {
	for _, any := range st.Details() {
		if d, ok := any.(T); ok {
			return d
		}
	}
	return d
}

// answerError answers a request with an error.
func answerError(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	st := complete(r, err)
	setRetryAfter(w.Header(), st)
	if exchangeOf(r.Context()).stream && r.Header.Get("Accept") == eventStreamType && isTemporary(st) {
		w.Header().Set("Content-Type", eventStreamType)
		event, err := marshalEnd(st.Proto())
		if err == nil {
			_, _ = w.Write(append(event, '\n')) // an error means that the client has gone
		}
		return
	}
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, &runtime.HTTPStatusError{HTTPStatus: httpStatus(st), Err: st.Err()})
}

// setRetryAfter sets the Retry-After header, in whole seconds, from RetryInfo.
func setRetryAfter(h http.Header, st *status.Status) {
	if retry := detail[*errdetails.RetryInfo](st); retry != nil {
		seconds := math.Ceil(retry.GetRetryDelay().AsDuration().Seconds())
		h.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
}

// answerRoutingError answers a request with an unknown path or a wrong method.
func answerRoutingError(_ context.Context, api *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, httpStatus int) {
	if isProbe(r) {
		return
	}
	switch httpStatus {
	case http.StatusNotFound:
		refuse(w, httpStatus, "unknown path: see / for a list")
	case http.StatusMethodNotAllowed:
		allowed := allowedMethods(api, r)
		w.Header().Set("Allow", allowed)
		refuse(w, httpStatus, "method %s is not allowed here, only %s", r.Method, allowed)
	default:
		refuseField(w, httpStatus, "", "cannot parse the path: %s", http.StatusText(httpStatus))
	}
}
