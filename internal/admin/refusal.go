package admin

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/protoadapt"
)

// domain is the ErrorInfo domain of all reasons of fanoutd.
const domain = "fanoutd.github.io"

// refusal is the reason and the gRPC code of an error that only HTTP has. Reasons are
// part of the protocol and never renamed. docs/reference/http.md lists them.
type refusal struct {
	reason string
	code   codes.Code
}

// The refusals by their HTTP status.
var refusals = map[int]refusal{
	http.StatusForbidden:             {"FOREIGN_ORIGIN", codes.PermissionDenied},
	http.StatusNotFound:              {"UNKNOWN_PATH", codes.NotFound},
	http.StatusMethodNotAllowed:      {"METHOD_NOT_ALLOWED", codes.Unimplemented},
	http.StatusRequestEntityTooLarge: {"BODY_TOO_LARGE", codes.InvalidArgument},
	http.StatusUnsupportedMediaType:  {"UNSUPPORTED_MEDIA_TYPE", codes.InvalidArgument},
	http.StatusUnprocessableEntity:   {"VALUE_UNREADABLE", codes.FailedPrecondition},
	http.StatusMisdirectedRequest:    {"UNKNOWN_HOST", codes.InvalidArgument},
	http.StatusNotImplemented:        {"NOT_SERVED", codes.Unimplemented},
}

// refuse answers a request that is not passed to the server, in the form of the server's
// own errors. httpStatus is a key of refusals.
func refuse(w http.ResponseWriter, httpStatus int, format string, args ...any) {
	r, ok := refusals[httpStatus]
	if !ok {
		refuseField(w, httpStatus, "", format, args...)
		return
	}
	answerRefusal(w, httpStatus, refused(r, fmt.Sprintf(format, args...)))
}

// refuseField answers an invalid request. field is "body", the name of a parameter, or
// empty.
func refuseField(w http.ResponseWriter, httpStatus int, field, format string, args ...any) {
	answerRefusal(w, httpStatus, invalid(field, fmt.Sprintf(format, args...)))
}

func answerRefusal(w http.ResponseWriter, httpStatus int, st *status.Status) {
	body, err := protojson.Marshal(st.Proto())
	if err != nil {
		body = nil // happens only for strings that are not UTF-8
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpStatus)
	_, _ = w.Write(body) // an error means that the client has gone
}

// maxErrorBytes is the maximum length of a text in an error. Texts quote what is wrong with a
// request, which may be megabytes long.
const maxErrorBytes = 1 << 10

// clip shortens a text to maxErrorBytes, and makes it UTF-8.
func clip(text string) string {
	if len(text) <= maxErrorBytes {
		return strings.ToValidUTF8(text, "?")
	}
	return strings.ToValidUTF8(text[:maxErrorBytes], "") + "..."
}

// refused returns the status of a refusal.
func refused(r refusal, message string) *status.Status {
	message = clip(message)
	return detailed(r.code, message, &errdetails.ErrorInfo{Domain: domain, Reason: r.reason})
}

// invalid returns the status of a request with an invalid field.
func invalid(field, message string) *status.Status {
	field, message = clip(field), clip(message)
	return detailed(codes.InvalidArgument, message,
		&errdetails.ErrorInfo{Domain: domain, Reason: "INVALID_REQUEST"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: message}}})
}

func detailed(code codes.Code, message string, details ...protoadapt.MessageV1) *status.Status {
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		return status.New(code, message) // does not happen: the details can be marshalled
	}
	return st
}

// complete adds a reason to errors of the gateway itself and of missing services. Errors
// of the server already have one.
func complete(r *http.Request, err error) *status.Status {
	st := status.Convert(err)
	switch {
	case len(st.Details()) > 0:
		return st
	case st.Code() == codes.InvalidArgument:
		message := clip(st.Message())
		return invalid(fieldOf(r, message), message)
	case st.Code() == codes.Unimplemented:
		return refused(refusals[http.StatusNotImplemented], st.Message())
	}
	return st
}

// quotedName matches the invalid parameter in errors of query.go and of the gateway.
var quotedName = regexp.MustCompile(`(?:parameter|field) ("[^"]*")`)

// fieldOf returns the invalid field of a request. The gateway names it only in the text
// of its error.
func fieldOf(r *http.Request, message string) string {
	if r.Method == http.MethodPost {
		return "body"
	}
	if m := quotedName.FindStringSubmatch(message); m != nil {
		if name, err := strconv.Unquote(m[1]); err == nil {
			return name
		}
	}
	return ""
}
