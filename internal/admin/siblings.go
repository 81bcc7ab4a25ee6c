package admin

import (
	"net/http"
	"slices"
)

// siblings are the origins of the HTTP services of all servers over the same etcd. Each server knows only its
// own watchers, so the status page of one asks the others. Their pages may read the two paths of statusPaths,
// with the token of the visitor. They may not write, and the browser sends no client certificate or other
// credentials of its own.
type siblings []string

// statusPaths are what the status page asks other servers for.
var statusPaths = []string{"/v1/resources", "/v1/watchers"}

// admits reports whether the status page of one of the servers sent the request, and sets the headers with which
// the browser lets the page read the response (CORS).
func (s siblings) admits(h http.Header, r *http.Request) bool {
	if len(s) == 0 || !slices.Contains(statusPaths, r.URL.Path) {
		return false
	}
	h.Add("Vary", "Origin")
	method := r.Method
	if isPreflight(r) {
		method = r.Header.Get("Access-Control-Request-Method")
	}
	origin := originOf(r)
	if method != http.MethodGet || !slices.Contains(s, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	return true
}

// answerStatusPreflight answers what the status page of another server may send.
func answerStatusPreflight(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET")
	h.Set("Access-Control-Allow-Headers", "Authorization")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
