package e2e

import (
	"syscall"
	"testing"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestSIGTERMEndsStreamsWithTheirPosition checks that a stopping server reports it, ends
// every stream with the position where it can be resumed, and exits without an error.
func TestSIGTERMEndsStreamsWithTheirPosition(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	etcd := loopback.FreeAddress(t)
	s := startServer(t, embedded(t, etcd)...)
	put(t, s.conn, "team/a", []byte("1"))

	recorders := map[string]*recorder{
		"whole resource": newRecorder(t, s.conn, wholeResource()),
		"prefix":         newRecorder(t, s.conn, prefixScope("team")),
		"key":            newRecorder(t, s.conn, keyScope("team/a")),
		"quiet key":      newRecorder(t, s.conn, keyScope("nothing")),
	}
	for name, r := range recorders {
		r.open(t, check.FromNothing)
		r.until(t, object.Synced)
		if name == "quiet key" {
			continue
		}
		r.reach(t, put(t, s.conn, "team/a", []byte(name)))
	}

	ctx := poll.Context(t)
	health := watchHealth(t, ctx, s.conn, "")
	s.signal(t, syscall.SIGTERM)
	if err := awaitStatus(health, healthv1.HealthCheckResponse_NOT_SERVING); err != nil {
		t.Errorf("the server does not report that it is stopping: %v", err)
	}
	for name, r := range recorders {
		var last check.Message
		for {
			m, err := r.receive(t)
			if err != nil {
				if err := drained(err); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			last = m
		}
		if last.Kind != object.Draining {
			t.Errorf("%s: got %+v as the last message, want DRAINING", name, last)
		}
	}
	if code, err := s.wait(ctx); err != nil || code != 0 {
		t.Fatalf("got exit code %d, %v", code, err)
	}

	s.start(t)
	for _, r := range recorders {
		r.open(t, check.After)
		r.until(t, object.Synced)
	}
	truth := readTruth(t, dialEtcd(t, etcd))
	for _, r := range recorders {
		r.validate(t, truth)
	}
}
