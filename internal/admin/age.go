package admin

import (
	"context"
	"net"
	"net/http"
	"time"
)

// maxConnectionAge is how long a connection with TLS takes new requests, as with gRPC:
// clients open another one then, at which both sides show the certificates that they
// have by that time. Responses go on.
const maxConnectionAge = 15 * time.Minute

type bornKey struct{}

// born notes when a connection began.
func born(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, bornKey{}, time.Now())
}

// aging has clients open another connection where theirs is too old.
func (s *Server) aging(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, ok := r.Context().Value(bornKey{}).(time.Time)
		if ok && r.TLS != nil && time.Since(began) >= s.maxAge {
			w.Header().Set("Connection", "close") // with HTTP/2 it becomes a GOAWAY
		}
		next.ServeHTTP(w, r)
	})
}
