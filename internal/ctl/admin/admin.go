// Package admin is a client of the AdminService: it lists resources and watchers, ends
// watches and reencrypts resources.
//
// A server reports only itself. [Each] queries several servers at once; [MergeResources] and
// [MergeWatchers] combine the answers; [ResourceColumns] and [WatcherColumns] show them.
package admin

import (
	"context"
	"sync"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Admin is a client of the AdminService of one server.
type Admin struct {
	// Server is the name of the server in the output.
	Server  string
	service fanoutv1.AdminServiceClient
}

// New returns an Admin that uses the connection of c. The connection should lead to a single
// server ([client.EachServer]), except for information that is the same on all servers.
func New(server string, c *client.Client) *Admin {
	return &Admin{server, fanoutv1.NewAdminServiceClient(c.Conn())}
}

// Answer is the answer of one of several servers.
type Answer[T any] struct {
	Server string
	Value  T
	Err    error
}

// Each queries all servers concurrently. The answers are in the order of the servers.
func Each[T any](ctx context.Context, servers []*Admin, request func(context.Context, *Admin) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(servers))
	var requests sync.WaitGroup
	for i, s := range servers {
		requests.Go(func() {
			value, err := request(ctx, s)
			answers[i] = Answer[T]{s.Server, value, err}
		})
	}
	requests.Wait()
	return answers
}

// HasLostEtcd reports whether a server answers and says that it does not follow etcd. Everybody may ask: the
// health service needs no right.
func HasLostEtcd(ctx context.Context, c *client.Client, resource string) bool {
	health, err := healthpb.NewHealthClient(c.Conn()).Check(ctx, &healthpb.HealthCheckRequest{Service: "resource/" + resource})
	return err == nil && health.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING
}
