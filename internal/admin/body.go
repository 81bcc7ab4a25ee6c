package admin

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
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
func bodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wanted := r.Method == http.MethodPut || r.Method == http.MethodPost
		if wanted && !isJSON(r.Header.Get("Content-Type")) {
			refuse(w, http.StatusUnsupportedMediaType, "the content type must be application/json")
			return
		}
		if wanted && r.URL.RawQuery != "" {
			name, _, _ := strings.Cut(r.URL.RawQuery, "=")
			refuseField(w, http.StatusBadRequest, name, "there must be no parameters: what they say belongs into the body")
			return
		}
		body, err := read(w, r)
		switch {
		case isTooLarge(err):
			refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBodyBytes)
			return
		case err != nil:
			refuseField(w, http.StatusBadRequest, "body", "the body could not be read: %v", err)
			return
		case wanted && len(body) == 0:
			refuseField(w, http.StatusBadRequest, "body", "there must be a body")
			return
		case !wanted && len(body) > 0:
			refuseField(w, http.StatusBadRequest, "body", "there must be no body: what it says belongs into parameters")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
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

func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}
