package client

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
)

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
