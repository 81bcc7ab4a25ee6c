package admin

import (
	"context"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
)

// probeTimeout bounds the health check behind a probe. The server answers it from memory.
const probeTimeout = time.Second

// probes serves the liveness and readiness probes. They need no credentials, so they name
// no addresses.
func probes(cfg Config, next http.Handler) http.Handler {
	health := grpc_health_v1.NewHealthClient(cfg.Conn)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			// A process that answers is alive. An unreachable etcd is no reason for a restart.
			probed(w, r, "ok")
		case "/readyz":
			result := readiness(r.Context(), health)
			if result != "ok" {
				if why := cfg.Unready(); why != "" {
					result += ": " + why
				}
			}
			probed(w, r, result)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// readiness returns "ok", or why the server does not accept requests. It uses only the
// gRPC health service, so both change at the same moment when the server stops.
func readiness(ctx context.Context, health grpc_health_v1.HealthClient) string {
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
	if refuseUnlessGet(w, r) {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if result != "ok" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, result+"\n") // an error means that the client has gone
}
