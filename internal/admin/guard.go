package admin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guard protects the listener against requests that a malicious page tricks a browser
// into. The listener is often on loopback or in a private network and needs no
// credentials there, because outsiders cannot reach it. A browser inside can, while it
// shows pages from outside; and it sends its user's client certificate unasked.
//
//   - A page of another origin can send requests but not read the answers. Those that write
//     are refused. Bodies need a content type for which browsers send a preflight request
//     first, and without CORS headers in the answer they stop there. Reads are refused as
//     well, unlike by http.CrossOriginProtection, because profiles, traces and watches cost
//     something even if the page cannot read them. A link to the status page works. Origins
//     of the configuration are excepted, see origin.go.
//   - A page can make its own host name resolve to our address (DNS rebinding), which
//     gives it our origin. So the Host header must be an IP address, localhost, or one
//     of the configured names.
func guard(hosts []string, pages []visitors, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		if !allowed(r.Host, hosts) {
			refuse(w, http.StatusMisdirectedRequest, "unknown host %q: add it to the setting admin-hosts", r.Host)
			return
		}
		if i := slices.IndexFunc(pages, func(v visitors) bool { return v.admit(h, r) }); i >= 0 {
			if isPreflight(r) {
				pages[i].answerPreflight(w)
			} else {
				next.ServeHTTP(w, r)
			}
			return
		}
		if isForeign(r) && !isLink(r) {
			refuse(w, http.StatusForbidden, "request from a page of another origin: if its pages may use the API, add it to the setting http-origins")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isForeign reports whether a page of another origin made the browser send the request. Browsers before
// 2023, and others unless the connection is encrypted or on loopback, do not send Sec-Fetch-Site. Then
// only a request that the page may not read without permission has an Origin. Programs send neither.
func isForeign(r *http.Request) bool {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "":
	case "same-origin", "none":
		return false
	default:
		return true
	}
	// A URL with a user, a path or anything else is no origin, so there is nothing to parse. A proxy
	// may add the encryption.
	origin := originOf(r)
	return origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host
}

// isLink reports whether the user followed a link to something that is cheap to show.
func isLink(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		(r.URL.Path == "/" || r.URL.Path == "/metrics" || r.URL.Path == "/openapi.json")
}

// allowed reports whether a Host header is one that DNS cannot influence, or one of the
// configured hosts.
func allowed(host string, hosts []string) bool {
	is := func(name string) bool { return strings.EqualFold(name, host) }
	if slices.ContainsFunc(hosts, is) {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if slices.ContainsFunc(hosts, is) {
		return true
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}
