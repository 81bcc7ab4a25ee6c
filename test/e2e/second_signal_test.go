package e2e

import (
	"fmt"
	"syscall"
	"testing"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// exitForced is the documented exit status of a server that a second signal has ended.
const exitForced = 3

// TestSecondSignalStopsAtOnce checks that a second signal ends a server whose graceful
// stop waits for a subscriber that does not read.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s := startServer(t, embedded(t, loopback.FreeAddress(t))...)
	stuck := newRecorder(t, dial(t, s.address), wholeResource())
	stuck.open(t, check.FromNothing)
	stuck.until(t, object.Synced)
	for i := range 16 {
		// Much more than fits into the flow control window.
		put(t, s.conn, fmt.Sprintf("key-%d", i), make([]byte, 512<<10))
	}

	ctx := poll.Context(t)
	health := watchHealth(t, ctx, s.conn, "")
	s.signal(t, syscall.SIGTERM)
	if err := awaitStatus(health, healthv1.HealthCheckResponse_NOT_SERVING); err != nil {
		t.Fatalf("the server does not report that it is stopping: %v", err)
	}
	s.signal(t, syscall.SIGTERM)
	code, err := s.wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if code != exitForced {
		t.Errorf("got exit status %d, want %d", code, exitForced)
	}
}
