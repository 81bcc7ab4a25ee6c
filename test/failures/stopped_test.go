package failures

import (
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// TestFanoutdStopped stops a server: the health changes first, and then each stream ends with
// a last position.
func TestFanoutdStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	address := etcdproc.Start(t, "http")
	client := dialEtcd(t, address)
	f := startFanoutd(t, over(address)...)
	var all subscribers
	for range 5 {
		all = append(all, newSubscribers("subscriber")...)
	}
	all.subscribe(t, f.reads)
	all.until(t, object.Synced)
	health, err := healthv1.NewHealthClient(f.conn).Watch(contextFor(t), &healthv1.HealthCheckRequest{Service: ""})
	if err != nil {
		t.Fatal(err)
	}
	last := client.putMany(t, "k", 20)
	all.reach(t, last)
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for {
		answer, err := health.Recv()
		if err != nil {
			t.Fatalf("the health does not report that fanoutd stops: %v", err)
		}
		if answer.GetStatus() == healthv1.HealthCheckResponse_NOT_SERVING {
			break
		}
	}
	for _, s := range all {
		if m := s.next(t); m.Kind != object.Draining || m.Position.Revision < last {
			t.Errorf("got %+v as the last message", m)
		}
		if _, err := s.receive(t); status.Code(err) != codes.Unavailable || reasonOf(err) != "DRAINING" {
			t.Errorf("got %v at the end of the stream", err)
		}
	}
	<-f.exited
	if code := f.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	f.start(t)
	client.putMany(t, "more", 20)
	all.subscribe(t, f.reads)
	all.until(t, object.Synced)
	all.caughtUp(t, object.Reset, object.Replay)
	all.validate(t, client.truth(t))
}
