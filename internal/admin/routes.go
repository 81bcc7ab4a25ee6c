package admin

import (
	"context"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// The patterns of paths about which the gateway does not know everything.
const (
	watchPath   = "/v1/resources/{resource=*}/watch"
	watcherPath = "/v1/watchers/{id=*}"
)

// headers prepares a request for the gateway. What HEAD asks for is what GET would
// answer, of which net/http leaves out the body. And how long a request may take is
// not a matter of HTTP: who has waited for long enough goes away.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, timed := r.Header["Grpc-Timeout"]
		if timed || r.Method == http.MethodHead {
			r = r.Clone(context.WithValue(r.Context(), methodKey{}, r.Method))
			r.Header.Del("Grpc-Timeout")
			if r.Method == http.MethodHead {
				r.Method = http.MethodGet
			}
		}
		next.ServeHTTP(w, r)
	})
}

// methodKey is for the method as it was asked for, where that may be another one.
type methodKey struct{}

// checked is around each path of the gateway.
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
		switch {
		case pattern == watchPath && r.Context().Value(methodKey{}) == http.MethodHead:
			// It would wait for an hour, for nothing.
			w.Header().Set("Allow", http.MethodGet)
			refuse(w, http.StatusMethodNotAllowed, "a watch is for GET")
		case pattern == watcherPath && r.URL.RawQuery != "":
			// Where there are no parameters, the gateway does not look for any.
			refuseQuery(w, r, "there are no parameters here")
		default:
			next(w, r, parts)
		}
	}
}

// refuseQuery refuses a request for having parameters, of which it names the first.
func refuseQuery(w http.ResponseWriter, r *http.Request, message string) {
	name, _, _ := strings.Cut(r.URL.RawQuery, "=")
	refuseField(w, http.StatusBadRequest, name, "%s", message)
}

// probeKey is for where to note the pattern of the path, instead of doing anything.
type probeKey struct{}

// isProbe reports whether nothing but a pattern is asked for.
func isProbe(r *http.Request) bool { return r.Context().Value(probeKey{}) != nil }

// allowedMethods returns the methods that there are at the path of a request, for the header
// Allow. Only the gateway knows, and it does not tell: so it is asked for each.
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
		if method == http.MethodGet && pattern != watchPath {
			found = append(found, http.MethodHead)
		}
	}
	return strings.Join(found, ", ")
}

// nowhere is where the answer to a probe goes.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
