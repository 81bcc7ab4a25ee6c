package admin

import (
	"context"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// Paths that need special treatment, as patterns of the gateway.
const (
	objectPath  = "/v1/resources/{resource=*}/objects/{key=**}" // of GET
	watchPath   = "/v1/resources/{resource=*}/watch"
	appliedPath = "/v1/resources/{resource=*}/applied"
	watcherPath = "/v1/watchers/{id=*}"
	clusterPath = "/v1/cluster"
)

// isStream reports whether the answers of a path do not end by themselves.
func isStream(pattern string) bool {
	return pattern == watchPath || pattern == appliedPath || pattern == subscribePath
}

// setStreamHeaders keeps proxies from holding messages back: a compressing one waits for more of them
// unless it must not transform them, and nginx collects them in a buffer.
func setStreamHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// headers prepares a request for the gateway. It turns HEAD into GET; net/http leaves out
// the body of the answer. It removes grpc-timeout: over HTTP, a client that has waited
// long enough closes the request.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Grpc-Timeout")
		if r.Method == http.MethodHead {
			r.Method = http.MethodGet
			exchangeOf(r.Context()).head = true
		}
		next.ServeHTTP(w, r)
	})
}

// checked wraps the handler of each path.
func checked(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, parts map[string]string) {
		pattern := ""
		if p, ok := runtime.HTTPPattern(r.Context()); ok {
			pattern = p.String()
		}
		if probe, ok := r.Context().Value(probeKey{}).(*string); ok {
			*probe = pattern
			return
		}
		if isStream(pattern) {
			exchangeOf(r.Context()).stream = true
			setStreamHeaders(w.Header())
		}
		switch {
		case isStream(pattern) && exchangeOf(r.Context()).head:
			// It would wait for an hour or longer, for nothing.
			w.Header().Set("Allow", http.MethodGet)
			refuse(w, http.StatusMethodNotAllowed, "a stream is for GET")
		case (pattern == watcherPath || pattern == clusterPath) && r.URL.RawQuery != "":
			// The gateway does not check for parameters if a path has none.
			refuseQuery(w, r, "this path has no query parameters")
		default:
			if field, err := prepare(r, pattern); err != nil {
				refuseField(w, http.StatusBadRequest, field, "%v", err)
				return
			}
			next(w, r, parts)
		}
	}
}

// prepare handles the headers and parameters that the gateway does not know. An error concerns the
// field.
func prepare(r *http.Request, pattern string) (field string, err error) {
	if acceptsEvents(r.Header) {
		// The gateway compares the whole header with the type of a marshaler.
		r.Header.Set("Accept", eventStreamType)
	}
	switch {
	case pattern == watchPath:
		return takeLastEvent(r)
	case pattern == objectPath && r.Method == http.MethodGet:
		return "raw", takeRaw(r)
	}
	return "", nil
}

// refuseQuery refuses a request with query parameters and names the first one.
func refuseQuery(w http.ResponseWriter, r *http.Request, message string) {
	name, _, _ := strings.Cut(r.URL.RawQuery, "=")
	refuseField(w, http.StatusBadRequest, name, "%s", message)
}

// probeKey is the context key of a *string. A request with it stores its path pattern
// there and does nothing else.
type probeKey struct{}

// isProbe reports whether the request only asks for its path pattern.
func isProbe(r *http.Request) bool { return r.Context().Value(probeKey{}) != nil }

// allowedMethods returns the methods of the request's path for the Allow header. The
// gateway has no function for that, so allowedMethods probes each method.
func allowedMethods(api *runtime.ServeMux, r *http.Request) string {
	var found []string
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
		pattern := ""
		probe := r.WithContext(context.WithValue(r.Context(), probeKey{}, &pattern))
		probe.Method = method
		api.ServeHTTP(nowhere{}, probe)
		if pattern == "" {
			continue
		}
		found = append(found, method)
		if method == http.MethodGet && !isStream(pattern) {
			found = append(found, http.MethodHead)
		}
	}
	return strings.Join(found, ", ")
}

// nowhere discards the answer to a probe.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
