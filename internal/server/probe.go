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

// Probe checks from within the process whether the server makes progress.
type Probe struct {
	server *Server
	conn   *grpc.ClientConn
}

// Probe returns a probe of the server. The caller closes it after the server has stopped.
func (s *Server) Probe() (*Probe, error) {
	conn, err := s.Local()
	if err != nil {
		return nil, err
	}
	return &Probe{s, conn}, nil
}

// Alive returns an error if a request is not answered before ctx is done, or if a change has
// waited for its dispatcher for longer than the limit. A server whose etcd is away is alive:
// a restart would not help, and would lose the cached data.
func (p *Probe) Alive(ctx context.Context, limit time.Duration) error {
	if _, err := healthpb.NewHealthClient(p.conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		return fmt.Errorf("the server does not answer: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(p.server.resources)) {
		if age := p.server.resources[name].QueueAge(); age > limit {
			return fmt.Errorf("resource %s: a change has waited %v for its dispatcher", name, age.Round(time.Second))
		}
	}
	return nil
}

// Close closes the connection of the probe.
func (p *Probe) Close() error {
	if err := p.conn.Close(); err != nil {
		return fmt.Errorf("cannot close the connection of the probe: %w", err)
	}
	return nil
}
