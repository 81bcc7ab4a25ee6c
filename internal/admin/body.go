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
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

const (
	// maxBodyBytes is the size of the largest body: the 4 MiB that gRPC takes, with
	// room for what JSON adds.
	maxBodyBytes = 8 << 20

	// bodyTimeout is how long a body may take to arrive.
	bodyTimeout = 30 * time.Second
)

// bodies sees to it that a request brings what it should and nothing that would be
// ignored: a condition in the wrong place must not make a write unconditional.
//
// Who sends a body is known before it is read, and it takes room until it is answered.
func (c Config) bodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !utf8.ValidString(r.URL.Path) {
			refuseField(w, http.StatusBadRequest, "", "the path is not UTF-8")
			return
		}
		if isEncoded(r.Header) {
			w.Header().Set("Accept-Encoding", "identity")
			refuse(w, http.StatusUnsupportedMediaType, "the body must not be encoded, such as with gzip")
			return
		}
		wanted := r.Method == http.MethodPut || r.Method == http.MethodPost
		if wanted && !isJSON(r.Header.Get("Content-Type")) {
			refuse(w, http.StatusUnsupportedMediaType, "the content type must be application/json")
			return
		}
		if wanted && r.URL.RawQuery != "" {
			refuseQuery(w, r, "there must be no parameters: what they say belongs into the body")
			return
		}
		done, err := c.receive(r)
		if err != nil {
			refuseWith(w, status.Convert(err))
			return
		}
		defer done()
		body, err := read(w, r)
		switch {
		case isTooLarge(err):
			refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBodyBytes)
			return
		case err != nil:
			refuseField(w, http.StatusBadRequest, "body", "the body could not be read: %v", err)
			return
		}
		if fault := faultOf(body, wanted); fault != "" {
			refuseField(w, http.StatusBadRequest, "body", "%s", fault)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// heldTimes is how often a body is there, at most: as JSON, and as what it says.
const heldTimes = 2

// receive asks whether the body may be read.
func (c Config) receive(r *http.Request) (done func(), err error) {
	size := r.ContentLength
	if size < 0 {
		size = maxBodyBytes // nobody knows
	}
	if c.Receive == nil || size == 0 || size > maxBodyBytes {
		return func() {}, nil // nothing is read
	}
	return c.Receive(asOfGRPC(r), r.Method+" "+r.URL.Path, certificateOf(r), r.Header.Values("Authorization"), heldTimes*size)
}

// faultOf says what is wrong with a body, and nothing if it is as it should be. The
// gateway would read no more than the first value, and take spaces for a message in
// which nothing is set.
func faultOf(body []byte, wanted bool) string {
	switch {
	case !wanted && len(body) > 0:
		return "there must be no body: what it says belongs into parameters"
	case !wanted:
		return ""
	case len(body) == 0:
		return "there must be a body"
	}
	if err := json.Unmarshal(body, new(json.RawMessage)); err != nil {
		return fmt.Sprintf("the body is not JSON: %v", err)
	}
	return ""
}

// repeats returns an error if a body says again what the path says, of which one would
// be ignored.
func repeats(body any) error {
	switch body := body.(type) {
	case **fanoutv1.PutOperation:
		if (*body).GetKey() != "" {
			return errors.New("the key is a part of the path")
		}
	case *fanoutv1.TransactRequest:
		if body.GetResource() != "" {
			return errors.New("the resource is a part of the path")
		}
	}
	return nil
}

// read reads the body.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBodyBytes {
		return nil, &http.MaxBytesError{Limit: maxBodyBytes} // without reading any of it
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	// Not a timeout of the whole server: that would end watches, too.
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

// isEncoded reports whether a body is said to be encoded.
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
