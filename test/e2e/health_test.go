package e2e

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// watchHealth watches the health of a service, which must be SERVING at first.
func watchHealth(t *testing.T, ctx context.Context, conn *grpc.ClientConn, service string) healthv1.Health_WatchClient {
	t.Helper()
	stream, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	if err := awaitStatus(stream, healthv1.HealthCheckResponse_SERVING); err != nil {
		t.Fatalf("health of %q: %v", service, err)
	}
	return stream
}

// awaitStatus waits for a health status.
func awaitStatus(stream healthv1.Health_WatchClient, want healthv1.HealthCheckResponse_ServingStatus) error {
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		if answer.GetStatus() == want {
			return nil
		}
	}
}
