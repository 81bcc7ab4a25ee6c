package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

const (
	// maxBodyBytes is the maximum size of a body: the 4 MiB of a gRPC request, with room
	// for the overhead of JSON.
	maxBodyBytes = 8 << 20

	// bodyTimeout bounds how long a body may take to arrive.
	bodyTimeout = 30 * time.Second
)

// bodies reads the bodies of requests. It refuses everything that would otherwise be
// ignored, because a condition in the wrong place must not make a write unconditional.
//
// The client is authenticated before its body is read, and the body counts against the
// memory limit until the request is answered.
func (c Config) bodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !utf8.ValidString(r.URL.Path) {
			refuseField(w, http.StatusBadRequest, "", "the path is not UTF-8")
			return
		}
		if isEncoded(r.Header) {
			w.Header().Set("Accept-Encoding", "identity")
			refuse(w, http.StatusUnsupportedMediaType, "the body must not have a content encoding such as gzip")
			return
		}
		if err := checkType(r); err != nil {
			refuse(w, http.StatusUnsupportedMediaType, "%v", err)
			return
		}
		if r.Method == http.MethodPost && r.URL.RawQuery != "" {
			refuseQuery(w, r, "query parameters are not allowed here: put their values into the body")
			return
		}
		write, field, err := parseWrite(r)
		if err != nil {
			refuseField(w, http.StatusBadRequest, field, "%s: %v", field, err)
			return
		}
		done, err := c.receive(r)
		if err != nil {
			refuseWith(w, status.Convert(err))
			return
		}
		done = sync.OnceFunc(done)
		defer done()
		x, limit := exchangeOf(r.Context()), c.maxBody(r.Method)
		body, err := read(x.ResponseWriter, r, limit)
		_, isTooLarge := errors.AsType[*http.MaxBytesError](err)
		switch {
		case isTooLarge:
			refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", limit)
			return
		case err != nil:
			refuseField(w, http.StatusBadRequest, "body", "cannot read the body: %v", err)
			return
		}
		stream := r.Method == http.MethodPost && r.URL.Path == subscribePath
		if err := check(r, body, stream); err != nil {
			refuseField(w, http.StatusBadRequest, "body", "%v", err)
			return
		}
		switch {
		case stream:
			r.Body = &requestBody{bytes.NewReader(body), done}
		case r.Method == http.MethodPost:
			r.Body = io.NopCloser(bytes.NewReader(body))
		case write != nil:
			write.value = body
			x.write = write
			r.Header.Del("Content-Type") // of the value, which the gateway does not parse
			r.Body = http.NoBody
		}
		next.ServeHTTP(w, r)
	})
}

// maxBody returns the maximum size of a body.
func (c Config) maxBody(method string) int64 {
	if method == http.MethodPut && c.MaxValueBytes > 0 {
		return c.MaxValueBytes
	}
	return maxBodyBytes
}

// copiesOfBody is how many times a body is in memory at most: as received and as a message.
const copiesOfBody = 2

// receive asks whether the body may be read.
func (c Config) receive(r *http.Request) (done func(), err error) {
	size, limit := r.ContentLength, c.maxBody(r.Method)
	if size < 0 {
		size = limit // unknown
	}
	if size == 0 || size > limit {
		return func() {}, nil // nothing is read
	}
	return c.Receive(asOfGRPC(r), accessOf(r), copiesOfBody*size)
}

// checkType checks the content type of a body: JSON, or the type of the value that a PUT stores.
func checkType(r *http.Request) error {
	contentType := r.Header.Get("Content-Type")
	switch {
	case r.Method == http.MethodPut && isForm(contentType):
		return fmt.Errorf("the content type is %q, which is for forms: say what the value is, for example with curl -H 'Content-Type: application/json'", contentType)
	case r.Method == http.MethodPost && !isJSON(contentType):
		return errors.New("the body must be JSON, with the header Content-Type: application/json")
	}
	return nil
}

// check returns what is wrong with a body. The gateway would read only the first JSON value, and
// take white space for an empty message.
func check(r *http.Request, body []byte, stream bool) error {
	switch r.Method {
	case http.MethodPut:
		if len(body) == 0 && r.Header.Get("Content-Type") == "" {
			return errors.New("the body must be the value: to store an empty one, send its Content-Type")
		}
		return nil
	case http.MethodPost:
	default:
		if len(body) > 0 {
			return errors.New("a body is not allowed here: use query parameters")
		}
		return nil
	}
	switch {
	case len(body) == 0:
		return errors.New("the body must not be empty")
	case stream:
		return checkRequests(body)
	}
	if err := json.Unmarshal(body, new(json.RawMessage)); err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return nil
}

// checkNotInPath returns an error if a body sets a field that the path already sets: one
// of the two would be ignored.
func checkNotInPath(body any) error {
	transaction, ok := body.(*fanoutv1.TransactRequest)
	if ok && transaction.GetResource() != "" {
		return errors.New("the resource must be in the path only")
	}
	return nil
}

// explain adds the name of the message that a body should be to the error of parsing it.
func explain(request any, err error) error {
	m, ok := request.(proto.Message)
	if !ok || errors.Is(err, io.EOF) {
		return err
	}
	name := m.ProtoReflect().Descriptor().Name()
	hint := ""
	if name == "TransactRequest" {
		hint = "; to store a document as it is, PUT it at the path of its object"
	}
	return fmt.Errorf("the body is not a %s: %w%s", name, err, hint)
}

// read reads the body.
func read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit} // before reading any of it
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	// A timeout of the whole server would end watches as well.
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	return body, errors.Join(err, control.SetReadDeadline(time.Time{}))
}

// isEncoded reports whether the headers announce a content encoding.
func isEncoded(h http.Header) bool {
	for _, line := range h.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return true
			}
		}
	}
	return false
}

func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}
