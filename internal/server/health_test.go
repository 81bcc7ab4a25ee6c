package server_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

const (
	serving    = healthpb.HealthCheckResponse_SERVING
	notServing = healthpb.HealthCheckResponse_NOT_SERVING
)

// health returns the health of a service.
func (in *instance) health(ctx context.Context, t *testing.T, service string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	resp, err := healthpb.NewHealthClient(in.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatalf("health of %q: %v", service, err)
	}
	return resp.GetStatus()
}

// watchHealth returns a stream of the health of a service.
func (in *instance) watchHealth(ctx context.Context, t *testing.T, service string) healthpb.Health_WatchClient {
	t.Helper()
	stream, err := healthpb.NewHealthClient(in.conn).Watch(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// awaitHealth waits until the stream reports the wanted health.
func awaitHealth(t *testing.T, stream healthpb.Health_WatchClient, want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	for {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatalf("waiting for %v: %v", want, err)
		}
		if resp.GetStatus() == want {
			return
		}
	}
}

func resourceHealth(resource string) string { return "resource/" + resource }

func TestHealthCoversTheServerAndEachResource(t *testing.T) {
	listing := newGate("List")
	defer listing.open()
	in := start(t, settings{interfere: func(_ string, s *seam) { s.on(listing.pass) }})
	ctx := within(t)
	services := []string{"", resourceHealth(config), resourceHealth(documents), resourceHealth(blobs)}
	listing.await(ctx, t)
	for _, service := range services {
		if got := in.health(ctx, t, service); got != notServing {
			t.Errorf("before the first load: got %v for %q, want %v", got, service, notServing)
		}
	}
	listing.open()
	for _, service := range services {
		awaitHealth(t, in.watchHealth(ctx, t, service), serving)
		if got := in.health(ctx, t, service); got != serving {
			t.Errorf("after the first load: got %v for %q, want %v", got, service, serving)
		}
	}
	_, err := healthpb.NewHealthClient(in.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: resourceHealth("x")})
	if status.Code(err) != codes.NotFound {
		t.Errorf("unknown resource: got %v, want NOT_FOUND", err)
	}
}

// Loaded resources are healthy while another one is still loading. The server is not.
func TestLoadedResourcesAreHealthyBeforeTheServerIs(t *testing.T) {
	listing := newGate("List")
	defer listing.open()
	in := start(t, settings{interfere: func(resource string, s *seam) {
		if resource == blobs {
			s.on(listing.pass)
		}
	}})
	ctx := within(t)
	for _, resource := range []string{config, documents} {
		awaitHealth(t, in.watchHealth(ctx, t, resourceHealth(resource)), serving)
	}
	for _, service := range []string{"", resourceHealth(blobs)} {
		if got := in.health(ctx, t, service); got != notServing {
			t.Errorf("got %v for %q before it is loaded, want %v", got, service, notServing)
		}
	}
	listing.open()
	awaitHealth(t, in.watchHealth(ctx, t, ""), serving)
}

// Clients that watch the health receive NOT_SERVING before the stopping server ends their
// stream.
func TestHealthIsNotServingWhenTheServerStops(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	streams := map[string]healthpb.Health_WatchClient{}
	for _, service := range []string{"", resourceHealth(config)} {
		streams[service] = in.watchHealth(ctx, t, service)
		awaitHealth(t, streams[service], serving)
	}
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)

	in.stop(ctx) // must end before ctx: no client needs to be disconnected
	if ctx.Err() != nil {
		t.Fatal("the server did not stop in time while a client watched the health")
	}
	for service, stream := range streams {
		awaitHealth(t, stream, notServing)
		_, err := stream.Recv()
		if r := refusalIn(t, err); r.Reason != draining.Reason {
			t.Errorf("health of %q: got stream end %v, want reason %s", service, err, draining.Reason)
		}
	}
}
