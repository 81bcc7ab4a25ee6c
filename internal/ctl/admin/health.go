package admin

import (
	"context"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/client"
)

// HasLostEtcd reports whether a server answers and says that it does not follow etcd. Everybody may ask: the
// health service needs no right.
func HasLostEtcd(ctx context.Context, c *client.Client, resource string) bool {
	health, err := healthpb.NewHealthClient(c.Conn()).Check(ctx, &healthpb.HealthCheckRequest{Service: "resource/" + resource})
	return err == nil && health.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING
}
