package admin

import (
	"net/http"
	"slices"
	"strings"
)

// origins are the origins whose pages may use the API.
type origins []string

// admits reports whether a page of one of the origins sent a request to the API, and sets the
// headers with which the browser lets the page read the response (CORS). Such a page may also use
// what its visitors have, such as client certificates.
func (o origins) admits(h http.Header, r *http.Request) bool {
	if len(o) == 0 || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return false
	}
	h.Add("Vary", "Origin")
	origin := originOf(r)
	if !slices.Contains(o, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", "ETag, Retry-After, "+watchHeader)
	return true
}

// originOf returns the origin of the page that made the browser send a request, or empty. Browsers
// send one header. Several together are no origin.
func originOf(r *http.Request) string { return strings.Join(r.Header.Values("Origin"), ", ") }

// isPreflight reports whether a browser asks what a page may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// answerPreflight answers what a page may send.
func answerPreflight(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, PUT, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-Match, If-None-Match, Last-Event-ID, Traceparent, Tracestate")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
