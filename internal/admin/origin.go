package admin

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// visitors are the pages of some other origins, and what they may use of this listener.
type visitors struct {
	origins   []string
	serves    func(path, method string) bool
	response  http.Header // of responses, in which it allows the page more than to read the body
	preflight http.Header // what a page may send
}

// trusted are the pages that may use the API. They may also use what their visitors have, such as client
// certificates.
func trusted(origins []string) visitors {
	return visitors{
		origins: origins,
		serves:  func(path, _ string) bool { return strings.HasPrefix(path, "/v1/") },
		response: http.Header{
			"Access-Control-Allow-Credentials": {"true"},
			"Access-Control-Expose-Headers":    {"ETag, Retry-After, " + watchHeader},
		},
		preflight: http.Header{
			"Access-Control-Allow-Methods": {"GET, HEAD, PUT, POST, DELETE"},
			"Access-Control-Allow-Headers": {"Authorization, Content-Type, If-Match, If-None-Match, Fanout-Message, Last-Event-ID, Traceparent, Tracestate"},
		},
	}
}

// statusPaths are what the status page asks other servers for.
var statusPaths = []string{"/v1/resources", "/v1/watchers"}

// siblings are the status pages of all servers over the same etcd. Each server knows only its own watchers, so
// the status page of one asks the others. The pages may read the two paths of statusPaths, with the token of the
// visitor. They may not write, and the browser sends no client certificate or other credentials of its own.
func siblings(origins []string) visitors {
	return visitors{
		origins: origins,
		serves:  func(path, method string) bool { return slices.Contains(statusPaths, path) && method == http.MethodGet },
		preflight: http.Header{
			"Access-Control-Allow-Methods": {"GET"},
			"Access-Control-Allow-Headers": {"Authorization"},
		},
	}
}

// admit reports whether one of the pages sent the request, and sets the headers with which the browser lets the
// page read the response (CORS).
func (v *visitors) admit(h http.Header, r *http.Request) bool {
	method := r.Method
	if isPreflight(r) {
		method = r.Header.Get("Access-Control-Request-Method")
	}
	if len(v.origins) == 0 || !v.serves(r.URL.Path, method) {
		return false
	}
	h.Add("Vary", "Origin")
	origin := originOf(r)
	if !slices.Contains(v.origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	maps.Copy(h, v.response)
	return true
}

// answerPreflight answers what a page may send.
func (v *visitors) answerPreflight(w http.ResponseWriter) {
	h := w.Header()
	maps.Copy(h, v.preflight)
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

// originOf returns the origin of the page that made the browser send a request, or empty. Browsers
// send one header. Several together are no origin.
func originOf(r *http.Request) string { return strings.Join(r.Header.Values("Origin"), ", ") }

// isPreflight reports whether a browser asks what a page may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}
