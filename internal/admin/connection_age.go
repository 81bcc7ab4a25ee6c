package admin

import (
	"net/http"
	"time"
)

// maxConnectionAge is how long a TLS connection accepts new requests, as with gRPC. The
// client then opens a new connection, and both sides show their current certificates.
// Responses in progress continue.
const maxConnectionAge = 15 * time.Minute

// onConnection sets the TLS state of requests, which http.Server does not know. It makes clients
// replace connections that are too old, and all connections while the server drains.
func (s *Server) onConnection(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, old := connOf(r), false
		if c.tls != nil {
			state := c.tls.ConnectionState()
			r.TLS, old = &state, time.Since(c.opened) >= s.maxAge
		}
		if old || s.draining.Load() {
			w.Header().Set("Connection", "close") // net/http turns it into a GOAWAY for HTTP/2
		}
		next.ServeHTTP(w, r)
	})
}
