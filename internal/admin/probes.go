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

// probe answers a liveness or readiness probe. why returns the problem, or "". Probes need no
// credentials, so they name no addresses.
func probe(why func(ctx context.Context) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		result := "ok"
		if problem := why(r.Context()); problem != "" {
			result = problem
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, result+"\n") // an error means that the client has gone
	})
}

// readiness returns why the server does not accept requests. It asks the gRPC health service, so both
// change at the same moment when the server stops.
func (c Config) readiness(health grpc_health_v1.HealthClient) func(context.Context) string {
	return func(ctx context.Context) string {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		problem := "the server is " + answer.GetStatus().String()
		switch {
		case err != nil:
			problem = "the server does not answer"
		case answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING:
			return ""
		}
		if why := c.Unready(); why != "" {
			problem += ": " + why
		}
		return problem
	}
}
