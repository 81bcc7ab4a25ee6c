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

// domain is that of all reasons of fanoutd.
const domain = "fanoutd.github.io"

// refusal is the reason and the code of gRPC for what only HTTP can refuse. Reasons
// are part of the protocol: they are never renamed. docs/http.md lists them.
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
	http.StatusMisdirectedRequest:    {"UNKNOWN_HOST", codes.InvalidArgument},
	http.StatusNotImplemented:        {"NOT_SERVED", codes.Unimplemented},
}

// refuse answers a request that does not get as far as the server, in the form of
// the server's own errors. The status is one of refusals.
func refuse(w http.ResponseWriter, httpStatus int, format string, args ...any) {
	r, ok := refusals[httpStatus]
	if !ok {
		refuseField(w, httpStatus, "", format, args...)
		return
	}
	answerRefusal(w, httpStatus, refused(r, fmt.Sprintf(format, args...)))
}

// refuseField answers a request that is invalid. The field is "body", or the name of
// a parameter; empty: none in particular.
func refuseField(w http.ResponseWriter, httpStatus int, field, format string, args ...any) {
	answerRefusal(w, httpStatus, invalid(field, fmt.Sprintf(format, args...)))
}

func answerRefusal(w http.ResponseWriter, httpStatus int, st *status.Status) {
	body, err := protojson.Marshal(st.Proto())
	if err != nil {
		body = nil // texts marshal unless they are not UTF-8
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpStatus)
	_, _ = w.Write(body) // who has gone does not want it
}

// refused returns the status of a refusal.
func refused(r refusal, message string) *status.Status {
	return detailed(r.code, message, &errdetails.ErrorInfo{Domain: domain, Reason: r.reason})
}

// invalid returns the status of a request with a fault in a field.
func invalid(field, message string) *status.Status {
	field, message = strings.ToValidUTF8(field, "?"), strings.ToValidUTF8(message, "?")
	return detailed(codes.InvalidArgument, message,
		&errdetails.ErrorInfo{Domain: domain, Reason: "INVALID_REQUEST"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: message}}})
}

func detailed(code codes.Code, message string, details ...protoadapt.MessageV1) *status.Status {
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		return status.New(code, message) // messages of texts marshal
	}
	return st
}

// complete gives a reason to what the gateway itself refuses, and to what is not
// served. Errors of the server have one.
func complete(r *http.Request, err error) *status.Status {
	st := status.Convert(err)
	switch {
	case len(st.Details()) > 0:
		return st
	case st.Code() == codes.InvalidArgument:
		return invalid(fieldOf(r, st.Message()), st.Message())
	case st.Code() == codes.Unimplemented:
		return refused(refusals[http.StatusNotImplemented], st.Message())
	}
	return st
}

// quotedName is how query.go and the gateway name the parameter that is wrong.
var quotedName = regexp.MustCompile(`(?:parameter|field) ("[^"]*")`)

// fieldOf returns what of a request the gateway does not understand. It only says so
// in words.
func fieldOf(r *http.Request, message string) string {
	if r.Method == http.MethodPut || r.Method == http.MethodPost {
		return "body"
	}
	if m := quotedName.FindStringSubmatch(message); m != nil {
		if name, err := strconv.Unquote(m[1]); err == nil {
			return name
		}
	}
	return ""
}
