package server

import (
	"context"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// healthInterval is how often the health of the resources is looked at.
	healthInterval = 100 * time.Millisecond

	// followGrace is how long a resource may be cut off from the store before it
	// is no longer healthy: longer than an election.
	followGrace = 10 * time.Second
)

// healthService is the name under which the health of a resource is served. The
// empty name is the server as a whole.
func healthService(resource string) string { return "resource/" + resource }

// watchHealth keeps the health service up to date until ctx is done. A resource
// serves once it is loaded and while it follows the store; the server serves once
// all resources are loaded, because what is loaded can be read without the store.
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

func (s *Server) setHealth(service string, serving bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(service, status)
}
