package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Alive returns an error if a request is not answered before ctx is done, or if a change has
// waited for its dispatcher for longer than the limit. A server whose etcd is away is alive:
// a restart would not help, and would lose the cached data.
func (l *Local) Alive(ctx context.Context, limit time.Duration) error {
	if _, err := healthpb.NewHealthClient(l).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		return fmt.Errorf("the server does not answer: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(l.server.resources)) {
		if age := l.server.resources[name].DispatchLag(); age > limit {
			return fmt.Errorf("resource %s: a change has waited %v for its dispatcher", name, age.Round(time.Second))
		}
	}
	return nil
}
