package admin

import (
	"context"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// probeTimeout is how long the server may take to say whether it is ready. It answers
// from memory.
const probeTimeout = time.Second

// probes serves what asks at intervals whether to send this process requests, or to
// restart it. Both answer everybody: they say nothing but yes and no.
func probes(conn grpc.ClientConnInterface, next http.Handler) http.Handler {
	health := grpc_health_v1.NewHealthClient(conn)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			// Who answers lives. Whether etcd is there is no reason to be restarted.
			probed(w, r, "ok")
		case "/readyz":
			probed(w, r, notReady(r.Context(), health))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// notReady returns ok, or why the server does not want requests: what it says to those
// who ask over gRPC, and nothing else, so that a server that is about to stop turns
// both off at the same time.
func notReady(ctx context.Context, health grpc_health_v1.HealthClient) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	switch {
	case err != nil:
		return "the server does not answer"
	case answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		return "the server is " + answer.GetStatus().String()
	}
	return "ok"
}

func probed(w http.ResponseWriter, r *http.Request, result string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "%s is for GET", r.URL.Path)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if result != "ok" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, result+"\n") // who has gone does not want it
}
