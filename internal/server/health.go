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

const (
	// healthInterval is the interval at which the health of the resources is checked.
	healthInterval = 100 * time.Millisecond

	// followGrace is how long a resource may be cut off from the store before it becomes
	// unhealthy. It is longer than an election of etcd.
	followGrace = 10 * time.Second
)

// healthService returns the name of a resource in the health service. The empty name stands
// for the server as a whole.
func healthService(resource string) string { return "resource/" + resource }

// watchHealth keeps the health service up to date until ctx is done. A resource is healthy
// once it is loaded and while it follows the store. The server is healthy once all resources
// are loaded, because loaded resources can be read without the store.
func (s *Server) watchHealth(ctx context.Context) {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	followed := map[string]time.Time{}
	for {
		loaded := true
		for name, r := range s.resources {
			source := r.Source()
			ready := source.Loaded()
			loaded = loaded && ready
			if source.Following() {
				followed[name] = time.Now()
			}
			s.setHealth(healthService(name), ready && time.Since(followed[name]) < followGrace)
		}
		s.setHealth("", loaded)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Unready returns why the server does not accept requests, or "".
func (s *Server) Unready() string {
	if s.stopping.Load() {
		return "it is stopping"
	}
	for _, name := range slices.Sorted(maps.Keys(s.resources)) {
		if !s.resources[name].Source().Loaded() {
			return "the resource " + name + " is not loaded"
		}
	}
	return ""
}

func (s *Server) setHealth(service string, serving bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(service, status)
}

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
