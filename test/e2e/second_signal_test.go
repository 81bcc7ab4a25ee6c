package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// A server that takes its time to stop, because a subscriber does not read, is
// ended by a second signal.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s := startServer(t, embedded(t, loopback.FreeAddress(t))...)
	stuck := newRecorder(t, dial(t, s.address), wholeResource())
	stuck.open(t, check.FromNothing)
	stuck.until(t, object.Synced)
	for i := range 16 {
		// Much more than the flow control window takes.
		put(t, s.conn, fmt.Sprintf("key-%d", i), make([]byte, 512<<10))
	}

	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	health := watchHealth(t, ctx, s.conn, "")
	s.signal(t, syscall.SIGTERM)
	if err := awaitStatus(health, healthv1.HealthCheckResponse_NOT_SERVING); err != nil {
		t.Fatalf("the server does not say that it is stopping: %v", err)
	}
	s.signal(t, syscall.SIGTERM)
	code, err := s.wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if code == 0 {
		t.Error("the second signal was ignored: the exit code is 0")
	}
}
