package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// The path of an object stands for its value, as in other key-value stores over HTTP: PUT stores its
// body as it is. Everything else about a write is in the query or in headers, so no JSON document
// can be taken for options. The JSON form of a put is in transactions.

// write is the part of a PUT or DELETE that is not in its path and query: the body of a PUT is
// the value, and headers have its content type and the precondition.
type write struct {
	value         []byte
	contentType   string
	ifModRevision *int64
	condition     string // the header with the precondition
	message       string // of a PUT or DELETE
}

// messageHeader has the message of a write.
const messageHeader = "Fanout-Message"

// parseWrite parses the headers of a request that writes; nil if it only reads. The error concerns
// the header field.
//
// A condition that the server does not know is an error, because a write must not become
// unconditional.
func parseWrite(r *http.Request) (w *write, field string, err error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil, "", nil
	}
	w = &write{}
	for _, name := range []string{"If-Match", "If-None-Match", "If-Unmodified-Since", "Content-Range"} {
		values := r.Header.Values(name)
		switch {
		case len(values) == 0:
			continue
		case r.Method == http.MethodPost || name == "If-Unmodified-Since" || name == "Content-Range":
			return nil, name, errors.New("this header is not supported here")
		case w.condition != "":
			return nil, name, fmt.Errorf("there must be one precondition, and %s is another one", w.condition)
		case name == "If-None-Match" && (len(values) > 1 || values[0] != "*"):
			return nil, name, errors.New("for a write it must be *, which means that the key does not exist")
		}
		w.condition, w.ifModRevision = name, new(int64)
		if name == "If-Match" {
			*w.ifModRevision, err = parseTag(values)
			if err != nil {
				return nil, name, err
			}
		}
	}
	if messages := r.Header.Values(messageHeader); len(messages) > 0 {
		switch {
		case r.Method == http.MethodPost:
			return nil, messageHeader, errors.New("this header is not supported here: the body has the message")
		case len(messages) > 1:
			return nil, messageHeader, errors.New("the header is given twice")
		case !utf8.ValidString(messages[0]):
			return nil, messageHeader, errors.New("it is not UTF-8")
		}
		w.message = messages[0]
	}
	if r.Method == http.MethodPut {
		types := r.Header.Values("Content-Type")
		if len(types) > 1 {
			return nil, "Content-Type", errors.New("the header is given twice")
		}
		w.contentType = r.Header.Get("Content-Type")
	}
	return w, "", nil
}

// entityTag returns the entity tag of an object: its mod_revision in quotes.
func entityTag(modRevision int64) string { return `"` + strconv.FormatInt(modRevision, 10) + `"` }

// parseTag parses a header with one entity tag.
func parseTag(values []string) (int64, error) {
	text, opened := strings.CutPrefix(values[0], `"`)
	text, closed := strings.CutSuffix(text, `"`)
	modRevision, err := strconv.ParseInt(text, 10, 64)
	if len(values) > 1 || !opened || !closed || err != nil || modRevision < 1 {
		return 0, errors.New(`it must be one mod_revision in quotes, such as "7"`)
	}
	return modRevision, nil
}

// addTo completes a gRPC request.
func (w *write) addTo(request any) error {
	var condition **int64
	var message *string
	switch request := request.(type) {
	case *fanoutv1.PutRequest:
		message = &request.Message
		put := request.GetPut()
		put.ContentType = w.contentType
		put.Value = &fanoutv1.PutOperation_Data{Data: w.value} // the content type says whether it is text
		condition = &put.IfModRevision
	case *fanoutv1.DeleteRequest:
		message = &request.Message
		condition = &request.GetDelete().IfModRevision
	}
	switch {
	case w.message == "":
	case message == nil:
		return invalid(messageHeader, "this header is not supported here").Err()
	case *message != "":
		return invalid(messageHeader, "there must be one message, and the parameter message is another one").Err()
	default:
		*message = w.message
	}
	switch {
	case w.condition == "":
		return nil
	case condition == nil:
		return invalid(w.condition, "this header is not supported here").Err()
	case *condition != nil:
		return invalid(w.condition, "there must be one precondition, and if_mod_revision is another one").Err()
	}
	*condition = w.ifModRevision
	return nil
}

// overHTTP makes an error name the header or the body instead of the field of the gRPC request.
func (w *write) overHTTP(err error) error {
	st := status.Convert(err)
	if st.Code() != codes.InvalidArgument {
		return err
	}
	names := []string{"put.data", "body", "put.content_type", "Content-Type"}
	if w.condition != "" {
		names = append(names, "put.if_mod_revision", w.condition, "delete.if_mod_revision", w.condition)
	}
	replacer := strings.NewReplacer(names...)
	var details []protoadapt.MessageV1
	for _, d := range st.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				v.Field = replacer.Replace(v.GetField())
			}
		}
		if d, ok := d.(protoadapt.MessageV1); ok {
			details = append(details, d)
		}
	}
	return detailed(st.Code(), replacer.Replace(st.Message()), details...).Err()
}

// isForm reports whether a content type is one that browsers and curl give to forms. curl -d sends
// it unless another one is given.
func isForm(contentType string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return mediaType == "application/x-www-form-urlencoded" || mediaType == "multipart/form-data"
}

// rawValue is a response that writeValue has written.
type rawValue struct{}

// takeRaw handles the parameter raw of a request for an object.
func takeRaw(r *http.Request) error {
	value, err := takeParameter(r, "raw")
	switch {
	case err != nil:
		return err
	case value == nil || *value == "false":
		return nil
	case *value != "" && *value != "true":
		return errors.New(`the parameter "raw" must be true or false`)
	}
	// A value must not become a script of the status page, whose origin it has.
	if part := r.Header.Get("Sec-Fetch-Dest"); part != "" && part != "empty" && part != "document" {
		return errors.New(`the parameter "raw" is not for parts of a page`)
	}
	exchangeOf(r.Context()).raw = true
	return nil
}

// writeValue writes a response with a raw value, and the entity tag of an object that was written. It
// is a ForwardResponseOption of the gateway.
func writeValue(ctx context.Context, w http.ResponseWriter, response proto.Message) error {
	h := w.Header()
	switch response := response.(type) {
	case *fanoutv1.PutResponse:
		if response.GetApplied() {
			h.Set("ETag", entityTag(response.GetRevision()))
		}
	case *fanoutv1.GetResponse:
		value, readable := valueOf(response.GetObject())
		switch {
		case !exchangeOf(ctx).raw:
			return nil
		case !readable:
			refuse(w, http.StatusUnprocessableEntity, "the server cannot decode the value; without the parameter raw, the response has what is known of it")
			return nil
		}
		tag := entityTag(response.GetObject().GetModRevision())
		h.Set("ETag", tag)
		h.Set("Content-Type", response.GetObject().GetContentType())
		// Whatever the value is, a browser that shows it runs nothing.
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
		if hasTag(exchangeOf(ctx).unless, tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		h.Set("Content-Length", strconv.Itoa(len(value)))
		_, err := w.Write(value)
		return err
	}
	return nil
}

// hasTag reports whether an If-None-Match header has an entity tag.
func hasTag(header, tag string) bool {
	for t := range strings.SplitSeq(header, ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == tag {
			return true
		}
	}
	return false
}

// asRaw leaves nothing to write of a response with a raw value. It is the ForwardResponseRewriter of
// the gateway.
func asRaw(ctx context.Context, response proto.Message) (any, error) {
	if _, ok := response.(*fanoutv1.GetResponse); ok && exchangeOf(ctx).raw {
		return rawValue{}, nil
	}
	return response, nil
}

// valueOf returns the value of an object, and whether the server was able to decode it.
func valueOf(o *fanoutv1.Object) (value []byte, readable bool) {
	if text, ok := o.GetValue().(*fanoutv1.Object_Text); ok {
		return []byte(text.Text), !o.GetOpaque()
	}
	return o.GetData(), !o.GetOpaque()
}
