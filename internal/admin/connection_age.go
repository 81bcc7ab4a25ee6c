package admin

import (
	"net/http"
	"time"
)

// maxConnectionAge is how long a TLS connection accepts new requests, as with gRPC. The
// client then opens a new connection, and both sides show their current certificates.
// Responses in progress continue.
const maxConnectionAge = 15 * time.Minute

// limitAge makes clients replace connections that are too old, and all connections while the
// server drains.
func (s *Server) limitAge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r)
		old := c != nil && c.tls != nil && time.Since(c.opened) >= s.maxAge
		if old || s.draining.Load() {
			w.Header().Set("Connection", "close") // net/http turns it into a GOAWAY for HTTP/2
		}
		next.ServeHTTP(w, r)
	})
}
