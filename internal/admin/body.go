package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/status"

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
		wanted := r.Method == http.MethodPut || r.Method == http.MethodPost
		if wanted && !isJSON(r.Header.Get("Content-Type")) {
			refuse(w, http.StatusUnsupportedMediaType, "the content type must be application/json")
			return
		}
		if wanted && !allowsQuery(r) {
			refuseQuery(w, r, "query parameters are not allowed here: put their values into the body")
			return
		}
		done, err := c.receive(r)
		if err != nil {
			refuseWith(w, status.Convert(err))
			return
		}
		done = sync.OnceFunc(done)
		defer done()
		body, err := read(w, r)
		switch {
		case isTooLarge(err):
			refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBodyBytes)
			return
		case err != nil:
			refuseField(w, http.StatusBadRequest, "body", "cannot read the body: %v", err)
			return
		}
		stream := wanted && r.URL.Path == subscribePath
		if err := check(body, wanted, stream); err != nil {
			refuseField(w, http.StatusBadRequest, "body", "%v", err)
			return
		}
		if stream {
			r.Body = &requestBody{bytes.NewReader(body), done}
		} else {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// copiesOfBody is how many times a body is in memory at most: as JSON and as a message.
const copiesOfBody = 2

// receive asks whether the body may be read.
func (c Config) receive(r *http.Request) (done func(), err error) {
	size := r.ContentLength
	if size < 0 {
		size = maxBodyBytes // unknown
	}
	if c.Receive == nil || size == 0 || size > maxBodyBytes {
		return func() {}, nil // nothing is read
	}
	return c.Receive(asOfGRPC(r), r.Method+" "+r.URL.Path, certificateOf(r), r.Header.Values("Authorization"), copiesOfBody*size)
}

// check returns what is wrong with a body. The gateway would read only the first JSON value, and
// take white space for an empty message.
func check(body []byte, wanted, stream bool) error {
	switch {
	case !wanted && len(body) > 0:
		return errors.New("a body is not allowed here: use query parameters")
	case !wanted:
		return nil
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
	switch body := body.(type) {
	case **fanoutv1.PutOperation:
		if (*body).GetKey() != "" {
			return errors.New("the key must be in the path only")
		}
	case *fanoutv1.TransactRequest:
		if body.GetResource() != "" {
			return errors.New("the resource must be in the path only")
		}
	}
	return nil
}

// read reads the body.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBodyBytes {
		return nil, &http.MaxBytesError{Limit: maxBodyBytes} // before reading any of it
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	// A timeout of the whole server would end watches as well.
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	return body, errors.Join(err, control.SetReadDeadline(time.Time{}))
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
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

// allowsQuery reports whether a request with a body may have the query parameters that it
// has: none, or for PUT the one field that is not part of the body.
func allowsQuery(r *http.Request) bool {
	if r.URL.RawQuery == "" {
		return true
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	for name := range query {
		if name != "return_current" && name != "returnCurrent" {
			return false
		}
	}
	return err == nil && r.Method == http.MethodPut
}
