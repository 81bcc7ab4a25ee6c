package admin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guard keeps browsers from being tricked into requests. This listener is usually on
// loopback or in a private network, where nothing need be shown: what protects it is
// that others cannot reach it. A browser can, and shows pages of others; and it shows
// the certificate of its user by itself.
//
//   - A page of another origin may send requests, though not read the answers:
//     http.CrossOriginProtection refuses those that write, and bodies knows only a
//     content type for which browsers ask first. There are no CORS headers, so the
//     answer is no.
//   - A page may have its own name resolve to our address (DNS rebinding), and is
//     then of the same origin as we are. Its name gives it away: the Host header has
//     to be an address, localhost, or one of the configured names.
func guard(hosts []string, next http.Handler) http.Handler {
	protected := http.NewCrossOriginProtection()
	protected.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, "a page of another origin must not do this")
	}))
	next = protected.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		if !allowed(r.Host, hosts) {
			refuse(w, http.StatusMisdirectedRequest, "the host %q is not known here, it can be added to the setting admin-hosts", r.Host)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allowed reports whether a Host header is one that no name server has a say in, or
// one of those that are configured.
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
