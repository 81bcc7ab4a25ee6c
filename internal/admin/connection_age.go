package admin

import (
	"context"
	"net"
	"net/http"
	"time"
)

// maxConnectionAge is how long a TLS connection accepts new requests, as with gRPC. The
// client then opens a new connection, and both sides show their current certificates.
// Responses in progress continue.
const maxConnectionAge = 15 * time.Minute

type openedKey struct{}

// withOpenTime stores in the context when the connection was opened.
func withOpenTime(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, openedKey{}, time.Now())
}

// limitAge makes clients replace connections that are too old, and all connections while the
// server drains.
func (s *Server) limitAge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened, ok := r.Context().Value(openedKey{}).(time.Time)
		old := ok && r.TLS != nil && time.Since(opened) >= s.maxAge
		if old || s.draining.Load() {
			w.Header().Set("Connection", "close") // net/http turns it into a GOAWAY for HTTP/2
		}
		next.ServeHTTP(w, r)
	})
}
