package admin

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// The reasons whose HTTP status says more than that of their code would.
var byReason = map[string]int{
	"PRECONDITION_FAILED": http.StatusPreconditionFailed,
	"WRITE_TOO_LARGE":     http.StatusRequestEntityTooLarge,
	"STORE_FULL":          http.StatusInsufficientStorage,
	"REVISION_EXPIRED":    http.StatusGone,
	"PAGE_TOKEN_EXPIRED":  http.StatusGone,
	"POSITION_EXPIRED":    http.StatusGone,
	"EPOCH_CHANGED":       http.StatusGone,
}

// httpStatus returns the HTTP status of an error.
func httpStatus(st *status.Status) int {
	if s, ok := byReason[detail[*errdetails.ErrorInfo](st).GetReason()]; ok {
		return s
	}
	return runtime.HTTPStatusFromCode(st.Code())
}

// detail returns the detail of a type, or its zero value.
func detail[T any](st *status.Status) (d T) {
	for _, any := range st.Details() {
		if d, ok := any.(T); ok {
			return d
		}
	}
	return d
}

// complete gives the reason INVALID_REQUEST to what the gateway itself refuses.
func complete(err error) *status.Status {
	st := status.Convert(err)
	if st.Code() != codes.InvalidArgument || len(st.Details()) > 0 {
		return st
	}
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Domain: "fanoutd", Reason: "INVALID_REQUEST"})
	if err != nil {
		return st
	}
	return detailed
}

// answerError answers with an error.
func answerError(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	st := complete(err)
	setRetryAfter(w.Header(), st)
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, &runtime.HTTPStatusError{HTTPStatus: httpStatus(st), Err: st.Err()})
}

// setRetryAfter says in whole seconds when a later try may succeed.
func setRetryAfter(h http.Header, st *status.Status) {
	if retry := detail[*errdetails.RetryInfo](st); retry != nil {
		seconds := math.Ceil(retry.GetRetryDelay().AsDuration().Seconds())
		h.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
}

// answerRoutingError answers where there is no such path.
func answerRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, httpStatus int) {
	switch httpStatus {
	case http.StatusNotFound:
		refuse(w, httpStatus, "there is nothing at this path, the paths are listed at /")
	case http.StatusMethodNotAllowed:
		refuse(w, httpStatus, "%s is not possible here, what is possible is listed at /", r.Method)
	default:
		refuse(w, httpStatus, "%s", http.StatusText(httpStatus))
	}
}

// refuse answers a request that does not get as far as the server, in the same form.
func refuse(w http.ResponseWriter, httpStatus int, format string, args ...any) {
	code := codes.InvalidArgument
	switch httpStatus {
	case http.StatusForbidden:
		code = codes.PermissionDenied
	case http.StatusNotFound:
		code = codes.NotFound
	case http.StatusMethodNotAllowed:
		code = codes.Unimplemented
	}
	st := complete(status.Error(code, fmt.Sprintf(format, args...)))
	body, err := protojson.Marshal(st.Proto())
	if err != nil {
		body = nil // texts marshal unless they are not UTF-8
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpStatus)
	_, _ = w.Write(body) // who has gone does not want it
}
